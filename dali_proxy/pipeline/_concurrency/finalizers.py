"""Finalizers that may wait for threads, and safe calls of foreign code on the threads of this project."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import ParamSpec

from dali_proxy.pipeline._concurrency.interrupts import pass_on_interrupt

Arguments = ParamSpec("Arguments")

THREAD_PREFIX = "dali-"  # all threads of pipelines and hosts have it: finalizers wait for a few of these threads


def call_back(function: Callable[Arguments, object], *arguments: Arguments.args, **keywords: Arguments.kwargs) -> None:
    """Call a function that must not raise; report an exception through `threading.excepthook` and continue.

    Only interrupts propagate to the caller, which is the main thread then.
    """
    try:
        function(*arguments, **keywords)
    except BaseException as error:  # noqa: BLE001
        report(function, error)


def report(function: Callable[..., object], error: BaseException) -> None:
    """Report an exception of a function that must not raise, as `call_back` does. Raise an interrupt again."""
    pass_on_interrupt(error)
    failure = RuntimeError(f"{function!r} must not raise, and raised {type(error).__name__}")
    failure.__cause__ = error  # the hook ignores a bare SystemExit
    thread = threading.current_thread()
    with suppress(BaseException):  # the hook is foreign code too
        threading.excepthook(threading.ExceptHookArgs((RuntimeError, failure, error.__traceback__, thread)))


class Finalizer:
    """A finalizer that may wait for other threads; runs when its owner is collected or the interpreter exits.

    It runs on the thread that collects the owner. When that thread belongs to this project, it runs on a new thread
    instead: a thread can't wait for its own end.

    Args:
        owner: object whose collection triggers the finalizer. It must not be reachable from `end`.
        end: function to call once.

    Example:
        >>> class Owner: pass
        >>> owner = Owner()
        >>> finalizer = Finalizer(owner, lambda: print("ended"))
        >>> del owner
        ended
        >>> finalizer.run()
    """

    def __init__(self, owner: object, end: Callable[[], object]) -> None:
        self._finalizer = weakref.finalize(owner, _end_on_own_thread, end)
        self._end = end

    @property
    def pending(self) -> bool:
        """Whether `end` is still due: neither called nor cancelled."""
        return self._finalizer.alive

    def run(self) -> None:
        """Call `end` on this thread, if it is still due."""
        if self._finalizer.detach() is not None:
            self._end()

    def cancel(self) -> None:
        """Cancel the finalizer without calling `end`."""
        self._finalizer.detach()


def _end_on_own_thread(end: Callable[[], object]) -> None:
    if threading.current_thread().name.startswith(THREAD_PREFIX):
        threading.Thread(target=end, name="end-of-garbage", daemon=False).start()  # joined at exit
    else:
        end()
