"""Samples of several batches as one batch, one after another, with the random numbers that they have alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from dali_proxy.pipeline._graph.graph import Edge, GraphNode
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._operator_api.arguments import Arguments
from dali_proxy.pipeline._operator_api.batch import Batch, BatchView
from dali_proxy.pipeline._operator_api.outputs import Outputs
from dali_proxy.pipeline._operator_api.request import BatchRequest, TensorList
from dali_proxy.pipeline._rng import RandomNumbers
from dali_proxy.pipeline.errors import PipelineError, SampleIndexError
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU


class JoinedBatch(BatchView):
    """The samples of several batches, with the threads and memory of the first."""

    def parts(self, node: GraphNode) -> Iterable[tuple[GraphNode, Batch]]:
        """Return the batches that an operator processes, each with the operator that processes it alone."""
        raise NotImplementedError

    def random_numbers(self, node: GraphNode) -> RandomNumbers:
        raise PipelineError("several batches have no common random numbers")

    def uniform(self, node: GraphNode, count: int) -> Array:
        return self._joined(node, lambda batch, member: batch.uniform(member, count))

    def sample_seeds(self, node: GraphNode) -> Array:
        return self._joined(node, lambda batch, member: batch.sample_seeds(member))

    def sample_generators(self, node: GraphNode) -> Iterator[np.random.Generator]:
        return chain.from_iterable(batch.sample_generators(member) for member, batch in self.parts(node))

    def sample_starts(self, node: GraphNode) -> Array:
        raise PipelineError("several batches have no common random numbers")

    def title(self, node: GraphNode, sample: int) -> str:
        for member, batch in self.parts(node):
            if sample < batch.size:
                return batch.title(member, sample)
            sample -= batch.size
        raise SampleIndexError("the batches have fewer samples")

    def _joined(self, node: GraphNode, draw: Callable[[Batch, GraphNode], Array]) -> Array:
        return np.concatenate([draw(batch, member) for member, batch in self.parts(node)])


class MergedBatch(JoinedBatch):
    """Several batches that run as one, because the GPU and its decoders take nearly as long for one as for all of them.

    `edges` are their outputs on the CPU that are needed.
    """

    def __init__(self, members: Sequence[Batch], edges: Iterable[Edge]) -> None:
        super().__init__(members[0], sum([each.size for each in members]))
        self.request = BatchRequest(self.size, {}, members[0].request.key)
        self.members, self.nested = members, False
        self.outputs, self.branch_batches, self.keep_alive, self.lenders = Outputs(), {}, [], []
        indices: dict[Edge, TensorListCPU] = {}
        for edge in edges:
            present = [each.outputs for each in members if edge in each.outputs]  # or its branch has no samples
            rows = [each.postponed_rows(edge) for each in present]
            postponed = [each for each in rows if each is not None]
            if postponed and len(postponed) == len(present):
                source = postponed[0][0]
                if source not in indices:
                    indices[source] = TensorListCPU.concatenate([index for _, index, _ in postponed])
                self.outputs.postpone_rows(
                    edge, source, indices[source], partial(_concatenated, [compute for *_, compute in postponed])
                )
            elif present:
                self.outputs[edge] = _concatenated([partial(each.__getitem__, edge) for each in present])

    def parts(self, node: GraphNode) -> Iterable[tuple[GraphNode, Batch]]:
        return [(node, batch) for batch in self.members]


class StackedBatch(JoinedBatch):
    """The samples of several equal operators: their parameters are computed by the same few calls.

    The operators have the same constant arguments, so any of them can process all samples.
    """

    def __init__(self, members: Sequence[tuple[GraphNode, Batch]]) -> None:
        super().__init__(members[0][1].full_batch, sum([batch.size for _, batch in members]))
        self._members = members

    def parts(self, node: GraphNode) -> Iterable[tuple[GraphNode, Batch]]:
        return self._members

    @property
    def values(self) -> Mapping[Edge, TensorList]:
        return {}

    def source(self, *, computed: bool) -> PixelExpression | None:
        """Return the inputs of all operators as one expression, as `Outputs.pixels` does; None if it doesn't exist."""
        if not self._join_arguments():
            return None
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
        return self._arguments

    def _join_arguments(self) -> bool:
        """Join the arguments of all operators; return False if they differ in shape or dtype."""
        node, values = self._members[0][0], {}
        for name in node.argument_inputs:
            parts: list[Any] = [batch.values[member.argument_inputs[name]] for member, batch in self._members]
            arrays = [part.small_array() for part in parts]
            if any(array is None for array in arrays) or len({(each.shape[1:], each.dtype) for each in arrays}) > 1:
                return False
            values[name] = TensorListCPU.from_dense(np.concatenate(arrays), parts[0].layout())
        self._arguments = Arguments(node, values, self.size)
        return True


def _concatenated(parts: Sequence[Callable[[], TensorList | None]]) -> TensorListCPU:
    """Return outputs on the CPU, one after another. A part is None if its branch has no samples."""
    return TensorListCPU.concatenate([found for part in parts if isinstance(found := part(), TensorListCPU)])
