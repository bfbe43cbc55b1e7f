"""Threads of this project: how they call foreign code, and how they end although garbage collection may use them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import ParamSpec

from pipeline._concurrency.interrupts import is_interrupt

__all__ = ["THREAD_PREFIX", "Ending", "call_back"]

Arguments = ParamSpec("Arguments")

THREAD_PREFIX = "dali-"  # begins the names of all threads of pipelines and hosts: ends wait for some of them


def call_back(function: Callable[Arguments, object], *arguments: Arguments.args, **keywords: Arguments.kwargs) -> None:
    """Call what must not raise. If it raises all the same, report it as Python reports the end of a thread, and go on.

    Only an interrupt reaches the caller: that is one of the main thread.
    """
    try:
        function(*arguments, **keywords)
    except BaseException as error:
        if is_interrupt(error):
            raise
        failure = RuntimeError(f"{function!r} must not raise, and raised {type(error).__name__}")
        failure.__cause__ = error  # a SystemExit itself would not be reported
        thread = threading.current_thread()
        with suppress(BaseException):  # the hook is foreign code, too
            threading.excepthook(threading.ExceptHookArgs((RuntimeError, failure, error.__traceback__, thread)))


class Ending:
    """Ends something when its owner is collected or the interpreter ends, where the end may wait for other threads.

    That is the thread that collects the owner, unless it is one of this project's: then it's a new one.

    Args:
        owner: what must not be reachable from `end`.
        end: called once.

    Example:
        >>> class Owner: pass
        >>> owner = Owner()
        >>> ending = Ending(owner, lambda: print("ended"))
        >>> del owner
        ended
        >>> ending.now()
    """

    def __init__(self, owner: object, end: Callable[[], object]) -> None:
        self._finalizer = weakref.finalize(owner, _end_apart, end)
        self._end = end

    @property
    def pending(self) -> bool:
        """Whether the end is still to come."""
        return self._finalizer.alive

    def now(self) -> None:
        """End it on this thread, if it hasn't ended."""
        if self._finalizer.detach() is not None:
            self._end()

    def never(self) -> None:
        """Leave the end to somebody else."""
        self._finalizer.detach()


def _end_apart(end: Callable[[], object]) -> None:
    if threading.current_thread().name.startswith(THREAD_PREFIX):
        threading.Thread(target=end, name="end-of-garbage", daemon=False).start()  # waited for at exit
    else:
        end()
