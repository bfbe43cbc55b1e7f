"""The stack of current graph builders. The innermost one records inputs and operators that have side effects."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pipeline.errors import GraphError

if TYPE_CHECKING:
    from pipeline._graph.builder import GraphBuilder

__all__ = ["current_builder", "no_builder", "pop_builder", "push_builder"]


class _Stack(threading.local):
    def __init__(self) -> None:
        self.builders: list[GraphBuilder | None] = []


_STACK = _Stack()


def current_builder() -> GraphBuilder | None:
    """Return this thread's innermost current builder, or None."""
    return _STACK.builders[-1] if _STACK.builders else None


def push_builder(builder: GraphBuilder) -> None:
    """Make a builder current."""
    _STACK.builders.append(builder)


@contextmanager
def no_builder() -> Iterator[None]:
    """In the `with` block, no builder is current: operators become part of no pipeline."""
    _STACK.builders.append(None)
    try:
        yield
    finally:
        _STACK.builders.pop()


def pop_builder() -> None:
    """Restore the builder that was current before.

    Raises:
        GraphError: no pipeline is current.
    """
    if not _STACK.builders:
        raise GraphError("pop_current() without push_current(): there is no current pipeline")
    _STACK.builders.pop()
