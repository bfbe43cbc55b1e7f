"""The current branch of the description. Operators that are called in a branch run for some samples only."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

#: A `DataNode`, whose module imports this one.
_Node: TypeAlias = Any

#: The conditions of a branch, outermost first: a selector with a number for each sample, and the number it must have.
Branch: TypeAlias = tuple[tuple[_Node, int], ...]


class _Stack(threading.local):
    def __init__(self) -> None:
        self.branch: Branch = ()


_STACK = _Stack()


def current_branch() -> Branch:
    """Return the branch that this thread describes; empty outside of branches."""
    return _STACK.branch


@contextmanager
def branch(selector: _Node, value: int) -> Iterator[None]:
    """Describe the operators for the samples whose selector, a number on the CPU, has a given value.

    Operators without inputs run for all samples anyway.
    """
    before = _STACK.branch
    own = () if selector.source is None else selector.source.branch
    _STACK.branch = (*(own if len(own) > len(before) else before), (selector, value))
    try:
        yield
    finally:
        _STACK.branch = before


def within(inner: Branch, outer: Branch) -> bool:
    """Return whether `inner` equals `outer` or is nested in it, so that its samples are samples of `outer`."""
    pairs = zip(inner, outer, strict=False)  # nodes are compared by identity: `==` creates a node
    return len(inner) >= len(outer) and all(one[0] is other[0] and one[1] == other[1] for one, other in pairs)
