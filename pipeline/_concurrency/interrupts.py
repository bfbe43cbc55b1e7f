"""Tells exceptions of signals from those of the code that they interrupt."""

from __future__ import annotations

import opcode
import signal
import threading
from types import CodeType
from typing import Any

__all__ = ["is_interrupt"]

_RAISE = opcode.opmap["RAISE_VARARGS"]


def is_interrupt(error: BaseException) -> bool:
    """Tell whether a signal raised an exception, such as Ctrl-C, rather than the code that it came out of.

    An interrupt belongs to the caller, whatever runs at that moment. Everything else that code of the user raises
    belongs to the batch that it was called for, `SystemExit` included.

    Python runs signal handlers on the main thread only, so nothing that another thread raises is an interrupt.
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    codes = {code for code in map(_code, handlers) if code is not None}
    traceback, raised = error.__traceback__, False
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code in codes:
            return True
        raised = code.co_code[traceback.tb_lasti] == _RAISE  # rather than interrupted there
        traceback = traceback.tb_next
    # The handler that Python has by itself is written in C, so it leaves no frame.
    return isinstance(error, KeyboardInterrupt) and signal.default_int_handler in handlers and not raised


def _code(handler: Any) -> CodeType | None:
    """Return the code that a handler runs: it may be a function, a method, a partial or an object."""
    handler = getattr(handler, "func", handler)
    handler = getattr(handler, "__func__", handler)
    if not hasattr(handler, "__code__") and callable(handler):
        handler = type(handler).__call__
    code = getattr(handler, "__code__", None)
    return code if isinstance(code, CodeType) else None
