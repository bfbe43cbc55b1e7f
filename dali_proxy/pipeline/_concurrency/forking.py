"""Fork hooks: release, keep or reset objects that a forked child inherits."""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401  # imports `logging`, too; see the hooks at the end
import os
import weakref
from functools import partial
from typing import Any, Protocol

from dali_proxy.pipeline._concurrency.locks import Level, free_inherited_locks, new_rlock

no_forks = new_rlock(Level.FORKS, "no forks")
"""Prevents forks by other threads while a thread holds it.

A child forked at the wrong moment would inherit files that are only open briefly, or a lock that is never released.
"""


class ForkAware(Protocol):
    """An object with a resource that only the process that created it may use."""

    def drop_inherited(self) -> None:
        """Release the resource in a forked child.

        This must not raise, and must not acquire a lock: the thread that holds it may not exist in the child.
        """


# Python discards exceptions inside a fork hook, also the KeyboardInterrupt of a Ctrl-C at that moment. So the hook in
# the parent runs no Python code: it is the `append` of a list.
forks: list[None] = []
"""One item for each fork of this process."""
_inherited: weakref.WeakSet[ForkAware] = weakref.WeakSet()
_to_keep: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_kept: list[Any] = []


def drop_in_child(thing: ForkAware) -> None:
    """Register an object: every child that this process forks during its lifetime calls `thing.drop_inherited()`."""
    _inherited.add(thing)


def keep_in_child(thing: Any) -> None:
    """Register an object that forked children must never destroy: they keep a reference to it forever.

    It must support weak references. Its lifetime in this process doesn't change.
    """
    _to_keep[id(thing)] = thing


def _after_fork_in_child() -> None:
    free_inherited_locks()
    _kept.extend(_to_keep.values())
    for thing in list(_inherited):
        thing.drop_inherited()
    _inherited.clear()


# These hooks run no Python code in the parent either, for the same reason. Hooks before a fork run in the reverse order
# of their registration, so `no_forks` is acquired before the locks of `logging` and `concurrent.futures`. A thread that
# had one of those, and waited for `no_forks`, would block a fork by the holder of `no_forks` forever.
os.register_at_fork(before=no_forks.acquire, after_in_parent=no_forks.release, after_in_child=no_forks.release)
os.register_at_fork(before=partial(forks.append, None), after_in_child=_after_fork_in_child)
