"""What a forked child must drop of its parent's: one hook for all objects that ask for it."""

from __future__ import annotations

import os
import weakref
from typing import Protocol

__all__ = ["ForkAware", "drop_in_child", "fork_count"]


class ForkAware(Protocol):
    """An object that holds something which only the process that made it may use."""

    def drop_inherited(self) -> None:
        """Let go of it in a forked child: take no lock (whose holder may be gone) and raise nothing."""


_forks = 0
_inherited: weakref.WeakSet[ForkAware] = weakref.WeakSet()


def drop_in_child(thing: ForkAware) -> None:
    """Have `thing.drop_inherited()` called in every child that this process forks while `thing` lives."""
    _inherited.add(thing)


def fork_count() -> int:
    """How often this process has forked so far: memory that was lent before has perhaps a second holder since."""
    return _forks


def _before_fork() -> None:
    global _forks
    _forks += 1


def _after_fork_in_child() -> None:
    for thing in list(_inherited):
        thing.drop_inherited()
    _inherited.clear()


os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)
