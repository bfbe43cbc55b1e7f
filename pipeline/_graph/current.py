"""The stack of current pipelines: the innermost one collects operators that have side effects."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol

from pipeline.errors import GraphError

if TYPE_CHECKING:
    from pipeline._graph.nodes import OperatorCall

__all__ = ["Keeper", "current_pipeline", "pop_pipeline", "push_pipeline"]


class Keeper(Protocol):
    """A pipeline, as far as operators know it when they are called."""

    def keep(self, call: OperatorCall) -> None:
        """Keep an operator call in the graph though no output needs it."""

    def declare(self, call: OperatorCall) -> None:
        """Note that an input was declared, which no output may need."""


class _Stack(threading.local):
    def __init__(self) -> None:
        self.pipelines: list[Keeper] = []


_STACK = _Stack()


def current_pipeline() -> Keeper | None:
    """Return the innermost current pipeline of this thread, or None."""
    return _STACK.pipelines[-1] if _STACK.pipelines else None


def push_pipeline(pipeline: Keeper) -> None:
    """Make a pipeline current."""
    _STACK.pipelines.append(pipeline)


def pop_pipeline() -> None:
    """Make the pipeline current that was so before.

    Raises:
        GraphError: no pipeline is current.
    """
    if not _STACK.pipelines:
        raise GraphError("pop_current() without push_current(): there is no current pipeline")
    _STACK.pipelines.pop()
