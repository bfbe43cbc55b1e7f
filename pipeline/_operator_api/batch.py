"""One batch on its way through the executor, as operators see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline._operator_api.arguments import Arguments
from pipeline._operator_api.request import BatchRequest, TensorList
from pipeline._rng import batch_generator
from pipeline.errors import SampleFailure
from pipeline.tensors.cpu import Array, TensorListCPU

if TYPE_CHECKING:
    from pipeline._concurrency.cost import Costs
    from pipeline._concurrency.thread_pool import ThreadPool
    from pipeline._graph.graph import BranchPath, Edge, GraphNode
    from pipeline._operator_api.memory_statistics import MemoryStatistics
    from pipeline._operator_api.reader import BatchReads
    from pipeline._operator_api.trace import Trace

__all__ = ["Batch"]


class Batch:
    """A batch that runs: its request, the values made so far, and what operators need to make more.

    Args:
        request: what was asked for.
        seed: the pipeline's.
        pool: threads of the CPU stage.
        allocate: returns memory for an edge's dense batch: (edge, shape, dtype) -> array and its owner.
        reads: what readers have begun to read for it.
        branches: for edges that are made in branches: which ones.
    """

    def __init__(
        self,
        request: BatchRequest,
        seed: int,
        pool: ThreadPool,
        allocate: Callable[[Edge, tuple[int, ...], np.dtype[Any]], tuple[Array, Any]],
        reads: BatchReads,
        branches: Mapping[Edge, BranchPath],
    ) -> None:
        self.request = request
        self.size = request.batch_size
        self.seed = seed
        self.pool = pool
        self.allocate = allocate
        self.reads = reads
        self.branches = branches
        #: Batches made so far, by edge; of what is made in a branch, the branch's samples.
        self.made: dict[Edge, TensorList] = {}
        #: Positions of the samples in the whole batch, and of those of the whole batch in here, or -1.
        self.positions: Array | None = None
        self.places: Array | None = None
        #: Its parts so far, by branch; None for those without samples. A circle, until the batch is done.
        self.parts: dict[BranchPath, Batch | None] = {}
        #: The CUDA stream of the batch, a `cupy.cuda.Stream`; None without a GPU.
        self.stream: Any = None
        #: Number of the batch in its executor, and where to record what runs when (or None).
        self.number = 0
        self.trace: Trace | None = None
        #: Where to keep note of the sizes of outputs, or None.
        self.memory: MemoryStatistics | None = None
        #: Where to add what each operator of the step that runs now costs, or None.
        self.costs: Costs | None = None
        #: Objects that must live until the batch's GPU work is done: host memory that is copied from.
        self.keep_alive: list[Any] = []
        #: CUDA streams to whose pools the memory of data that was fed returns: outputs may lie in it.
        self.lenders: list[Any] = []

    @property
    def values(self) -> Mapping[Edge, TensorList]:
        """What operators read, by edge: of what was made, the samples of this batch."""
        return self.made

    @property
    def whole(self) -> Batch:
        """The batch that this one is a part of; itself when it is none."""
        return self

    def keep(self, edge: Edge, value: TensorList) -> None:
        """Add a batch that an operator made."""
        self.made[edge] = value
        if self.memory is not None:
            self.memory.add_batch(edge, value)

    def arguments(self, node: GraphNode) -> Arguments:
        """Return the arguments of a node for this batch."""
        values: dict[str, TensorListCPU] = {}
        for name, edge in node.argument_inputs.items():
            value = self.values[edge]
            assert isinstance(value, TensorListCPU)
            values[name] = value
        return Arguments(node, values, self.size)

    def siblings(self, sample: int) -> range:
        """Return which samples become one: the frames of a sequence, where each of them has arguments of its own."""
        return range(sample, sample + 1)

    def generator(self, node: GraphNode) -> np.random.Generator:
        """Return the random numbers of a node for this batch."""
        own = node.argument("seed")
        if own is not None and own >= 0:
            return batch_generator(own, 0, self.request.key)
        return batch_generator(self.seed, node.random_stream, self.request.key)

    def source_of(self, node: GraphNode, failures: Sequence[SampleFailure]) -> str:
        """Return where the first sample at which an operator failed lies in the data set that it comes from."""
        return self.reads.source_info(node.inputs[0], failures[0].sample) if node.inputs and failures else ""

    def in_whole(self, failures: Sequence[SampleFailure]) -> tuple[SampleFailure, ...]:
        """Return failures of samples of this batch by the positions in the whole batch."""
        positions = self.positions
        if positions is None:
            return tuple(failures)
        return tuple(SampleFailure(int(positions[each.sample]), each.error) for each in failures)
