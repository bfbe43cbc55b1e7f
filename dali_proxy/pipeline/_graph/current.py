"""The stack of current graph builders. The innermost one records inputs and operators that have side effects."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from dali_proxy.pipeline.errors import GraphError


class Builder(Protocol):
    """What a description of operators needs of the current `GraphBuilder`."""

    owner: Any

    def convert(self, value: Any, label: str) -> Any:
        """Return the node of a value that is neither a node nor a constant; None if there is none."""

    def declare_input(self, call: Any) -> None:
        """Note a call that declares an input."""

    def preserve(self, call: Any) -> None:
        """Keep a call in the graph, even if no output needs it."""

    def finish_call(self, call: Any, nodes: Any) -> Any:
        """Return the outputs of a call."""


class _Stack(threading.local):
    def __init__(self) -> None:
        self.builders: list[Builder | None] = []


_STACK = _Stack()


def current_builder() -> Builder | None:
    """Return this thread's innermost current builder, or None."""
    return _STACK.builders[-1] if _STACK.builders else None


def push_builder(builder: Builder) -> None:
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
