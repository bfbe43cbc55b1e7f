"""Several batches that run as one, because the GPU and its decoders take nearly as long for one as for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from pipeline._graph.graph import Edge, GraphNode
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.request import BatchRequest
from pipeline._rng import RandomNumbers
from pipeline.errors import PipelineError
from pipeline.tensors.cpu import Array, TensorListCPU

__all__ = ["MergedBatch"]


class MergedBatch(Batch):
    """The samples of several batches, one batch after another, with the random numbers that they have alone.

    Args:
        members: the batches.
        edges: their outputs that are needed, on the CPU.
    """

    def __init__(self, members: Sequence[Batch], edges: Iterable[Edge]) -> None:
        first = members[0]
        size = sum([each.size for each in members])
        request = BatchRequest(size, {}, first.request.key)
        super().__init__(request, first.seed, first.pool, first.allocate, first.reads, first.branches)
        self.members = members
        self.number, self.trace = first.number, first.trace
        for edge in edges:
            parts = [each.outputs[edge] for each in members]
            self.outputs[edge] = TensorListCPU.concatenate([part for part in parts if isinstance(part, TensorListCPU)])

    def random_numbers(self, node: GraphNode) -> RandomNumbers:
        raise PipelineError("several batches have no common random numbers")

    def uniform(self, node: GraphNode, count: int) -> Array:
        return np.concatenate([each.uniform(node, count) for each in self.members])

    def sample_seeds(self, node: GraphNode) -> Array:
        return np.concatenate([each.sample_seeds(node) for each in self.members])

    def sample_generators(self, node: GraphNode) -> Iterator[np.random.Generator]:
        return chain.from_iterable(each.sample_generators(node) for each in self.members)

    def sample_starts(self, node: GraphNode) -> npt.NDArray[np.uint64]:
        raise PipelineError("several batches have no common random numbers")
