"""What a forked child must drop of its parent's, and what it must keep: one hook for all objects that ask for it."""

from __future__ import annotations

import os
import weakref
from functools import partial
from typing import Any, Protocol

from pipeline._concurrency.locks import Level, free_inherited_locks, new_rlock

__all__ = ["ForkAware", "drop_in_child", "fork_count", "forks", "keep_in_child", "no_forks"]

no_forks = new_rlock(Level.FORKS, "no forks")
"""While a thread holds it, no other one forks: the child would get what is open only for a moment, or a lock that is
taken for ever."""


class ForkAware(Protocol):
    """An object that holds something which only the process that made it may use."""

    def drop_inherited(self) -> None:
        """Let go of it in a forked child: take no lock (whose holder may be gone) and raise nothing."""


# Python drops what is raised inside a hook, such as the KeyboardInterrupt of a Ctrl-C that comes just then. So the one
# that runs in the parent is no Python code: a list grows by an item at each fork.
forks: list[None] = []
"""Has an item for each time that this process has forked."""
_inherited: weakref.WeakSet[ForkAware] = weakref.WeakSet()
_to_keep: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_kept: list[Any] = []


def drop_in_child(thing: ForkAware) -> None:
    """Have `thing.drop_inherited()` called in every child that this process forks while `thing` lives."""
    _inherited.add(thing)


def keep_in_child(thing: Any) -> None:
    """Have every child that this process forks while `thing` lives keep it for ever: destroying it is an error there.

    Args:
        thing: something that can have weak references. In this process it lives no longer for that.
    """
    _to_keep[id(thing)] = thing


def fork_count() -> int:
    """How often this process has forked so far: memory that was lent before has perhaps a second holder since."""
    return len(forks)


def _after_fork_in_child() -> None:
    free_inherited_locks()
    _kept.extend(_to_keep.values())
    for thing in list(_inherited):
        thing.drop_inherited()
    _inherited.clear()


# No Python code either, for the same reason.
os.register_at_fork(before=no_forks.acquire, after_in_parent=no_forks.release, after_in_child=no_forks.release)
os.register_at_fork(before=partial(forks.append, None), after_in_child=_after_fork_in_child)
