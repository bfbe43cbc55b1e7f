"""A cache for values that operators derive from their arguments."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from typing import Any, Generic, TypeVar

from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.batch import Batch

Value = TypeVar("Value")


class ArgumentCache(Generic[Value]):
    """Values derived from the arguments of a node and the size of the batch.

    A value is computed once per batch size if its arguments are constants, and for each batch otherwise. Any thread may
    call `get`.

    Args:
        node: the operator.
        compute: computes a value from a batch and the further keys of `get`. Callers must not modify the result.
        arguments: names of the arguments that the value depends on; by default all.
        drawn: whether the value depends on random numbers, so that it is computed for each batch.

    Example::

        self._windows = ArgumentCache(node, lambda batch, layout: read_windows(batch.arguments(node), layout))
        windows = self._windows.get(batch, "HWC")
    """

    def __init__(
        self,
        node: GraphNode,
        compute: Callable[..., Value],
        arguments: Collection[str] | None = None,
        *,
        drawn: bool = False,
    ) -> None:
        varying = node.argument_inputs if arguments is None else node.argument_inputs.keys() & arguments
        self._values: dict[tuple[Hashable, ...], Value] | None = None if drawn or varying else {}
        self._compute = compute

    def get(self, batch: Batch, *keys: Any) -> Value:
        """Return the value for a batch, and for hashable keys that it also depends on."""
        if self._values is None:
            return self._compute(batch, *keys)
        key = (batch.size, *keys)
        value = self._values.get(key)
        if value is None:
            value = self._values[key] = self._compute(batch, *keys)
        return value
