"""The batches of several equal operators, as one batch: their parameters are computed by the same few calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pipeline._graph.graph import Edge, GraphNode
from pipeline._kernels.expression import PixelExpression
from pipeline._operator_api.arguments import Arguments
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.request import TensorList
from pipeline._rng import RandomNumbers
from pipeline.errors import PipelineError
from pipeline.tensors.cpu import Array, TensorListCPU

__all__ = ["StackedBatch"]


class StackedBatch(Batch):
    """The samples of several operators, one operator after another.

    The operators have the same constant arguments, so any of them can process all samples.

    Args:
        members: the operators, and the batch that each processes.
    """

    def __init__(self, members: Sequence[tuple[GraphNode, Batch]]) -> None:
        full = members[0][1].full_batch
        super().__init__(full.request, full.seed, full.pool, full.allocate, full.reads, full.branches)
        self._members = members
        self._arguments: Arguments | None = None
        self.counts = [batch.size for _, batch in members]
        self.size = sum(self.counts)
        self.stream, self.keep_alive, self.number = full.stream, full.keep_alive, full.number

    @property
    def values(self) -> Mapping[Edge, TensorList]:
        return {}

    def source(self, *, computed: bool) -> PixelExpression | None:
        """Return the inputs of all operators as one expression; None if it doesn't exist.

        Args:
            computed: see `Outputs.pixels`.
        """
        edges = [node.inputs[0] for node, _ in self._members]
        full = self._members[0][1].full_batch
        if any(edge not in full.outputs for edge in edges):
            return None
        if all(batch is full for _, batch in self._members):
            pixels = full.outputs.pixels_of_all(edges, computed=computed)
            if pixels is not None:
                return pixels
        parts = [batch.pixels(node.inputs[0], computed=computed) for node, batch in self._members]
        found = [part for part in parts if part is not None]
        alike = len({(part.kind, part.order, part.layout) for part in found}) == 1
        return PixelExpression.concatenate(found) if alike and len(found) == len(parts) else None

    def arguments(self, node: GraphNode) -> Arguments:
        if self._arguments is None:
            values = {
                name: _joined([batch.values[member.argument_inputs[name]] for member, batch in self._members])
                for name in node.argument_inputs
            }
            self._arguments = Arguments(node, values, self.size)
        return self._arguments

    def random_numbers(self, node: GraphNode) -> RandomNumbers:
        raise PipelineError("several operators have no common random numbers")

    def uniform(self, node: GraphNode, count: int) -> Array:
        return self._concatenated(lambda member, batch: batch.uniform(member, count))

    def sample_seeds(self, node: GraphNode) -> Array:
        return self._concatenated(lambda member, batch: batch.sample_seeds(member))

    def _concatenated(self, draw: Callable[[GraphNode, Batch], Array]) -> Array:
        return np.concatenate([draw(member, batch) for member, batch in self._members])


def _joined(values: Sequence[Any]) -> TensorListCPU:
    """Return batches, one after another.

    Raises:
        PipelineError: their samples differ in shape or dtype.
    """
    arrays = [value.small_array() for value in values]
    if any(
        array is None or (array.shape[1:], array.dtype) != (arrays[0].shape[1:], arrays[0].dtype) for array in arrays
    ):
        raise PipelineError("arguments of equal operators differ in shape")
    return TensorListCPU.from_dense(np.concatenate(arrays), values[0].layout())
