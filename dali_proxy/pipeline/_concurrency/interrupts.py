"""Distinguish exceptions raised by signal handlers from those raised by the interrupted code."""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # without the enumerations of `signal`, which take fifty times as long
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from opcode import opmap
from types import CodeType
from typing import Any

_RAISING = {opmap["RAISE_VARARGS"], opmap["RERAISE"]}

_registered: list[Callable[[], Iterable[Any]]] = []


@contextmanager
def blocked_interrupts() -> Iterator[set[int]]:
    """Block SIGINT in this thread and in processes that it starts. Yield what a process has to unblock.

    Ctrl-C interrupts all processes of a terminal or a notebook. A forked child that raised KeyboardInterrupt before it
    reaches its own code would continue the parent's program.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield {signal.SIGINT} - before
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def register_handlers(handlers: Callable[[], Iterable[Any]]) -> None:
    """Register a function that returns the handlers which `signal.getsignal` doesn't, because they are deferred."""
    _registered.append(handlers)


def is_interrupt(error: BaseException) -> bool:
    """Return whether a signal handler raised an exception (Ctrl-C, for example), rather than the interrupted code.

    An interrupt propagates to the caller, whatever code runs at that moment. All other exceptions of user code,
    including `SystemExit`, belong to the batch for which it was called.

    Python runs signal handlers on the main thread only, so exceptions of other threads are never interrupts.
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    handlers = [signal.getsignal(number) for number in range(1, signal.NSIG)]
    for registered in _registered:
        handlers += registered()
    codes = {_code(handler) for handler in handlers} - {None}
    trace, last = error.__traceback__, None
    while trace is not None:
        if trace.tb_frame.f_code in codes:
            return True
        trace, last = trace.tb_next, trace
    if not isinstance(error, KeyboardInterrupt) or signal.default_int_handler not in handlers:
        return False
    # Python's default handler is written in C, so it leaves no frame. The innermost frame was interrupted at an
    # instruction that raises nothing.
    return last is None or last.tb_frame.f_code.co_code[last.tb_lasti] not in _RAISING


def pass_on_interrupt(error: BaseException) -> None:
    """Raise an exception again if it is that of a signal handler, and not of the code that an ``except`` watches."""
    if is_interrupt(error):
        raise error


def _code(handler: Any) -> CodeType | None:
    """Return the code of a handler, which may be a function, a method, a partial or a callable object."""
    for name in ("func", "__func__"):
        handler = getattr(handler, name, handler)
    if not hasattr(handler, "__code__") and callable(handler):
        handler = type(handler).__call__
    code = getattr(handler, "__code__", None)
    return code if isinstance(code, CodeType) else None
