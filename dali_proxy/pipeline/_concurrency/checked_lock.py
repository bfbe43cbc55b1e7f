"""A lock for tests: it raises if a thread takes locks in the wrong order."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
import weakref
from _thread import RLock
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum
from types import CodeType
from typing import Any, TypeVar

T = TypeVar("T")

REPORT_VARIABLE = "DALI_PROXY_LOCK_REPORT"
"""Environment variable with the path of a file to which every error is appended, even if code swallows the error."""


class LockOrderError(RuntimeError):
    """A thread takes a lock although it holds one that comes later in the order of all locks."""


class _Thread(threading.local):
    """The locks that a thread has taken. Released ones are removed when the thread takes its next lock."""

    # Not set in `__init__`, in which CPython may run a finalizer that takes locks. Each thread replaces this list.
    taken: list[CheckedLock] = []  # noqa: RUF012


_thread = _Thread()


class CheckedLock(RLock):  # type: ignore[misc]  # final in typeshed only
    """A lock with a level. `threading.Condition` accepts it.

    Only taking the lock runs Python code. Releasing it doesn't, because a signal handler that raises in that code
    would leave the lock taken. So this is a subclass of Python's reentrant lock, even where it replaces a plain one.

    Locks of finalizers and signal handlers aren't compared with those of the code that they interrupt: that code may
    hold any lock.

    Args:
        level: position of the lock in the order of all locks.
        name: name for error messages.
        reentrant: whether the thread that holds the lock may take it again.

    Raises:
        LockOrderError: taking the lock now would break the order, or the thread holds it and it isn't reentrant.
    """

    def __init__(self, level: IntEnum, name: str, *, reentrant: bool) -> None:
        self.level = level
        self.name = name
        self.reentrant = reentrant

    def __new__(cls, level: IntEnum, name: str, *, reentrant: bool) -> CheckedLock:
        """Return a lock that isn't held."""
        return super().__new__(cls)

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock; as `threading.Lock.acquire`."""
        if globals()["_thread"] is None:  # the interpreter ends, and has cleared the modules
            return super().acquire(blocking, timeout)
        _thread.taken = held = [lock for lock in _thread.taken if lock._is_owned()]  # type: ignore[attr-defined]
        if blocking:  # a thread that doesn't wait can't be part of a deadlock
            self._check(held)
        elif self in held and not self.reentrant:
            return False
        results: list[bool] = []
        try:
            # All in C: if a signal handler raises just after the lock was taken, `results` shows that it was.
            results.extend(map(RLock.acquire, (self,), (blocking,), (timeout,)))
            if results[0]:
                _thread.taken.append(self)
            return results[0]
        except BaseException:
            if results == [True]:
                self.release()
            raise

    __enter__ = acquire

    def _acquire_restore(self, state: Any) -> None:
        """Take the lock again after `Condition.wait`."""
        super()._acquire_restore(state)  # type: ignore[misc]  # typeshed doesn't have it
        _thread.taken.append(self)

    def _check(self, held: list[CheckedLock]) -> None:
        if self in held:
            if not self.reentrant:
                _fail(f"the thread that holds the lock {self} takes it again, and would wait forever")
            return
        innermost = max(held, key=lambda lock: lock.level, default=None)
        if innermost is not None and innermost.level >= self.level and not _interrupts_other_code():
            _fail(f"a thread takes the lock {self} while it holds {innermost}: docs/architecture.md has the order")

    def __str__(self) -> str:
        return f"{self.name!r} (level {self.level.name})"


def as_interruption(call: Callable[[], T]) -> T:
    """Return ``call()``, for tests: locks that it takes count as those of a finalizer."""
    return call()


def _fail(message: str) -> None:
    path = os.environ.get(REPORT_VARIABLE)
    if path:
        where = f"process {os.getpid()}, thread {threading.current_thread().name}"
        report = f"{message}\n  in {where}:\n{''.join(traceback.format_stack(sys._getframe(2), limit=30))}\n"
        with suppress(OSError):  # of a process without descriptors, for example
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            os.write(descriptor, report.encode())
            os.close(descriptor)
    raise LockOrderError(message)


def _interrupts_other_code() -> bool:
    """Return whether a finalizer or a signal handler runs on this thread."""
    codes = {_code(signal.getsignal(number)) for number in signal.valid_signals()}
    codes |= {weakref.finalize.__call__.__code__, as_interruption.__code__}
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code in codes or frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _code(handler: Any) -> CodeType | None:
    handler = getattr(handler, "func", handler)  # of a partial
    function = getattr(handler, "__func__", handler)
    return getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
