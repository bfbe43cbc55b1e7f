"""What operators make of their arguments, made once where no argument differs from sample to sample."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from typing import Any, Generic, TypeVar

from pipeline._graph.graph import GraphNode
from pipeline._operator_api.batch import Batch

__all__ = ["Remembered"]

Made = TypeVar("Made")


class Remembered(Generic[Made]):
    """Something that depends on a node's arguments and the size of the batch. Any thread may ask.

    Args:
        node: the operator.
        make: makes it: of a batch, and of what else is asked for. Nobody may change what it returns.
        arguments: those that it depends on; by default all.
        drawn: whether it depends on random numbers, and so is made for each batch.

    Example::

        self._windows = Remembered(node, lambda batch, layout: CropWindows(batch.arguments(node), batch.size, layout))
        windows = self._windows.of(batch, "HWC")
    """

    def __init__(
        self,
        node: GraphNode,
        make: Callable[..., Made],
        arguments: Collection[str] | None = None,
        *,
        drawn: bool = False,
    ) -> None:
        varying = node.argument_inputs if arguments is None else node.argument_inputs.keys() & arguments
        self._made: dict[tuple[Hashable, ...], Made] | None = None if drawn or varying else {}
        self._make = make

    def of(self, batch: Batch, *more: Any) -> Made:
        """Return that of a batch, and of hashable things that it depends on besides."""
        if self._made is None:
            return self._make(batch, *more)
        key = (batch.size, *more)
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = self._make(batch, *more)
        return found
