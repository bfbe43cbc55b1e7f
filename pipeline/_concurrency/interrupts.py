"""Distinguish exceptions raised by signal handlers from those raised by the interrupted code."""

from __future__ import annotations

import opcode
import signal
import threading
from types import CodeType
from typing import Any

__all__ = ["is_interrupt"]

_RAISE = opcode.opmap["RAISE_VARARGS"]


def is_interrupt(error: BaseException) -> bool:
    """Return whether a signal handler raised an exception (Ctrl-C, for example), rather than the interrupted code.

    An interrupt propagates to the caller, whatever code runs at that moment. All other exceptions of user code,
    including `SystemExit`, belong to the batch for which it was called.

    Python runs signal handlers on the main thread only, so exceptions of other threads are never interrupts.
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
        raised = code.co_code[traceback.tb_lasti] == _RAISE  # otherwise it was interrupted there
        traceback = traceback.tb_next
    # Python's default handler is written in C, so it leaves no frame.
    return isinstance(error, KeyboardInterrupt) and signal.default_int_handler in handlers and not raised


def _code(handler: Any) -> CodeType | None:
    """Return the code of a handler, which may be a function, a method, a partial or a callable object."""
    handler = getattr(handler, "func", handler)
    handler = getattr(handler, "__func__", handler)
    if not hasattr(handler, "__code__") and callable(handler):
        handler = type(handler).__call__
    code = getattr(handler, "__code__", None)
    return code if isinstance(code, CodeType) else None
