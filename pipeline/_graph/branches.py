"""Which branch the description of a graph is in: operators that are called there run for some samples only."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline._graph.nodes import DataNode

__all__ = ["Branch", "branch", "current_branch", "within"]

#: The conditions of a branch, outermost first: a number for each sample, and the value that it must have.
Branch = tuple[tuple["DataNode", int], ...]


class _Stack(threading.local):
    def __init__(self) -> None:
        self.branch: Branch = ()


_STACK = _Stack()


def current_branch() -> Branch:
    """Return the branch that this thread describes; empty outside of all."""
    return _STACK.branch


@contextmanager
def branch(selector: DataNode, value: int) -> Iterator[None]:
    """Describe what happens to those samples for which a number has some value.

    Operators that read nothing run for all samples all the same.

    Args:
        selector: a batch of numbers on the CPU.
        value: which of them are meant.
    """
    before = _STACK.branch
    _STACK.branch = (*before, (selector, value))
    try:
        yield
    finally:
        _STACK.branch = before


def within(inner: Branch, outer: Branch) -> bool:
    """Tell whether a branch is another one or lies within it: then all its samples are samples of the other."""
    pairs = zip(inner, outer, strict=False)  # nodes are compared by identity: `==` makes a node
    return len(inner) >= len(outer) and all(mine[0] is its[0] and mine[1] == its[1] for mine, its in pairs)
