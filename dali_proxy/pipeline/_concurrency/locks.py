"""The locks of both packages: one factory, one order, and no lock that stays taken in a forked child.

docs/architecture.md lists all locks and explains their order.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from enum import IntEnum, auto
from operator import attrgetter
from typing import Any


class Level(IntEnum):
    """The order of all locks, outermost first.

    A thread that holds a lock takes only locks of later levels. It never holds two locks of the same level, except a
    reentrant lock that it takes again.
    """

    USER_CODE = auto()
    SERVER = auto()
    MONITOR = auto()
    MONITOR_CLIENT = auto()
    CONNECTION = auto()
    FORKS = auto()
    PICKLING = auto()
    SUBMISSION = auto()
    DELIVERY = auto()
    CLUSTER_DELIVERY = auto()
    PENDING_REQUESTS = auto()
    RESULT_OPENER = auto()
    LAUNCHER = auto()
    NVIDIA_PIPELINE = auto()
    CLUSTER_SERVERS = auto()
    SOURCE_POOL = auto()
    READER_GROUP = auto()
    READER = auto()
    VIDEO_POOL = auto()
    VIDEO_DECODERS = auto()
    VIDEO_CLIP = auto()
    IMAGE_DECODER = auto()
    IMAGE_CODEC = auto()
    ARENA = auto()
    RECEIVE = auto()
    CHANNEL = auto()
    LEAF = auto()


#: Weak references to all locks. With a plain set, as opposed to a `WeakSet`, no Python code runs when a lock dies.
_locks: set[weakref.ref[Any]] = set()


def new_lock(level: Level, name: str) -> threading.Lock:
    """Return a `threading.Lock`. Children that this process forks get it free.

    With DALI_PROXY_DEBUG_LOCKS=1 in the environment when this module is imported, as in tests, the lock checks the
    order of levels. Otherwise it is Python's own lock, and taking it costs nothing extra.

    Args:
        level: position of the lock in the order of all locks.
        name: name for error messages and for the table in docs/architecture.md.
    """
    lock: threading.Lock = threading.Lock() if _checked is None else _checked(level, name, reentrant=False)
    _register(lock)
    return lock


def new_rlock(level: Level, name: str) -> threading.RLock:
    """Return a `threading.RLock`; see `new_lock`."""
    lock: threading.RLock = threading.RLock() if _checked is None else _checked(level, name, reentrant=True)
    _register(lock)
    return lock


def is_held(lock: threading.RLock) -> bool:
    """Return whether the calling thread holds a lock."""
    held: bool = lock._is_owned()  # type: ignore[attr-defined]  # `threading.Condition` calls it, too
    return held


class _Condition(threading.Condition):
    """A condition whose ``with`` statement takes and releases the lock in C.

    A signal handler may raise at the end of `threading.Condition.__enter__`, which is Python code, and leave the lock
    taken.
    """

    __enter__ = property(attrgetter("_lock.__enter__"))
    __exit__ = property(attrgetter("_lock.__exit__"))


def new_condition(lock: threading.Lock | threading.RLock) -> threading.Condition:
    """Return a condition with a lock of this factory."""
    return _Condition(lock)


def free_inherited_locks() -> None:
    """Free all locks, in a forked child.

    The holder of a lock may be a thread that doesn't exist in the child, where the lock would stay taken forever.
    """
    for reference in list(_locks):
        lock = reference()
        if lock is not None:
            lock._at_fork_reinit()  # Python's own modules do the same


def _register(lock: Any) -> None:
    _locks.add(weakref.ref(lock, _locks.discard))


def _checked_locks() -> Callable[..., Any] | None:
    if os.environ.get("DALI_PROXY_DEBUG_LOCKS", "0") in ("", "0"):
        return None
    from dali_proxy.pipeline._concurrency.checked_lock import CheckedLock

    return CheckedLock


_checked = _checked_locks()
