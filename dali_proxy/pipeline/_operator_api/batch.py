"""A batch in execution, as operators see it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from dali_proxy.pipeline._arrays import Int64s, UInt64s
from dali_proxy.pipeline._declaration.schema import RANDOM_STATE
from dali_proxy.pipeline._kernels.samples import Samples
from dali_proxy.pipeline._operator_api.arguments import Arguments
from dali_proxy.pipeline._operator_api.batch_reads import BatchReads
from dali_proxy.pipeline._operator_api.outputs import Outputs
from dali_proxy.pipeline._operator_api.request import BatchRequest, TensorList
from dali_proxy.pipeline._rng import MOST_NUMBERS, NUMBERS_PER_COUNT, BatchKey, RandomNumbers, RandomState, philox
from dali_proxy.pipeline.errors import SampleFailure
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU

if TYPE_CHECKING:
    from dali_proxy.pipeline._bulk.buffer_pool import BufferPool
    from dali_proxy.pipeline._concurrency.cost import Costs
    from dali_proxy.pipeline._concurrency.thread_pool import ThreadPool
    from dali_proxy.pipeline._graph.graph import BranchPath, Edge, GraphNode
    from dali_proxy.pipeline._kernels.expression import PixelExpression
    from dali_proxy.pipeline._operator_api.memory_statistics import SizeRecorder
    from dali_proxy.pipeline._operator_api.trace import Trace

Value = TypeVar("Value")


def no_output_memory(edge: Edge, nbytes: int) -> None:
    """Return None, for outputs in the memory of CuPy's allocator."""


def no_place(edge: Edge, shapes: Int64s, dtype: np.dtype[Any], layout: str) -> None:
    """Return None: the samples may be anywhere."""


class Batch:
    """A batch in execution: its request, the outputs computed so far, and the resources that operators need.

    Args:
        request: inputs and size of the batch.
        seed: seed of the pipeline.
        pool: threads of the CPU stage.
        allocate: function that returns memory for the dense batch of an edge: (edge, shape, dtype) -> array and owner.
        reads: reads that the readers have started for the batch.
        branches: branch of each edge that isn't computed for all samples.
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
        #: Outputs computed so far.
        self.outputs = Outputs()
        #: For the batch of a branch: the positions of its samples in the full batch.
        self.positions: Array | None = None
        #: Batches of branches so far; None for branches without samples. They refer to this one until it is done.
        self.branch_batches: dict[BranchPath, Batch | None] = {}
        #: For each edge that selects branches of this batch: the samples of each branch, by its number.
        self.chosen: dict[Edge, dict[int, Array]] = {}
        #: The CUDA stream of the batch, a `cupy.cuda.Stream`; None without a GPU.
        self.stream: Any = None
        #: Returns memory of the GPU for a dense output of the graph, (edge, bytes); None for that of CuPy's allocator.
        self.output_memory: Callable[[Edge, int], Any] = no_output_memory
        #: Number of the batch in its executor, and the record of its spans (or None).
        self.number = 0
        self.trace: Trace | None = None
        #: The batches that run as this one, if it consists of several.
        self.members: Sequence[Batch] = ()
        #: Whether a function of the user waits for it: it then must not wait for the global generators.
        self.nested = False
        #: Records the sizes of outputs, or None.
        self.memory: SizeRecorder | None = None
        #: Measures the cost of each unit of the current step, or None.
        self.costs: Costs | None = None
        #: Objects that must live until the batch's GPU work is done, such as host memory that is copied to the GPU.
        self.keep_alive: list[Any] = []
        #: CUDA streams whose pools own the memory of fed data; outputs may be views of that memory.
        self.lenders: list[Any] = []
        #: Whether the results are those of all batches with the same samples; False after an operator had to use other
        #: means than usual because of some samples of the batch, so that last bits may differ. A cache keeps neither.
        self.is_repeatable = True
        #: Returns memory for the samples of an edge, (edge, shapes, dtype, layout); None for any memory.
        self.place: Callable[[Edge, Int64s, np.dtype[Any], str], TensorListCPU | None] = no_place

    @classmethod
    def without_executor(cls, request: BatchRequest, outputs: Mapping[Edge, TensorList], seed: int = 0) -> Batch:
        """Return a batch with known outputs, for operators that need neither threads nor memory."""
        nothing: Any = None
        batch = cls(request, seed, nothing, nothing, BatchReads({}, {}), {})
        batch.outputs.update(outputs)
        return batch

    @property
    def indices(self) -> Array | None:
        """For the batch of a branch: the index here of each sample of the full batch, or -1."""
        return None

    @property
    def values(self) -> Mapping[Edge, TensorList]:
        """The outputs that operators read as their inputs, by edge, with the samples of this batch only."""
        return self.outputs

    def pixels(self, edge: Edge, *, computed: bool = False, elements: bool = False) -> PixelExpression | None:
        """Return an output with the samples of this batch as an expression; see `Outputs.pixels`."""
        return self.outputs.pixels(edge, computed=computed, elements=elements)

    @property
    def full_batch(self) -> Batch:
        """The batch with all samples; differs from this one if this one belongs to a branch."""
        return self

    def indices_in(self, edge: Edge) -> Array | None:
        """Return the indices of this batch's samples in an output; None if the output has the same samples."""
        return None

    def keep(self, edge: Edge, value: TensorList) -> None:
        """Add an output of an operator."""
        self.outputs[edge] = value
        if self.memory is not None:
            self.memory.add_batch(edge, value)

    def allocate_samples(
        self, edge: Edge, shapes: Int64s, dtype: np.dtype[Any], layout: str, buffers: BufferPool, for_gpu: bool
    ) -> TensorListCPU:
        """Return uninitialized samples in one block of memory: a dense batch if all have one shape.

        Args:
            edge: the output.
            shapes: (N, ndim) shapes of the samples.
            dtype: their dtype.
            layout: their layout.
            buffers: allocator of memory.
            for_gpu: whether a GPU may read the samples. Otherwise, samples of one shape use memory of the batch's
                outputs.
        """
        placed = self.place(edge, shapes, dtype, layout)
        if placed is not None:
            return placed
        shape = (len(shapes), *shapes[0].tolist()) if (shapes == shapes[0]).all() else None
        if shape is not None and not for_gpu:
            array, owner = self.allocate(edge, shape, dtype)
            samples = TensorListCPU.from_dense(array, layout)
            samples.owner = owner
            return samples
        if shape is not None:
            memory, is_pinned = buffers.memory(math.prod(shape) * dtype.itemsize)
            samples = TensorListCPU.from_dense(memory.view(dtype).reshape(shape), layout)
        else:
            table, nbytes = Samples.packed(0, shapes, dtype)
            memory, is_pinned = buffers.memory(nbytes)
            table = replace(table, pointers=memory.ctypes.data + table.pointers)
            samples = TensorListCPU.from_table(table, [memory], layout=layout)
        samples.pinned = is_pinned
        return samples

    def clear(self) -> None:
        """Drop the outputs and the batches of branches, which refer to this one, when the batch has ended."""
        self.outputs.clear()
        self.branch_batches.clear()

    def traced(self, first: int, last: int) -> AbstractContextManager[Any]:
        """Return a context that records the span of work on some samples, if there is a trace."""
        return nullcontext() if self.trace is None else self.trace.range(f"samples {first} to {last}", self.number)

    def traced_ranges(self, task: Callable[[int, int], object]) -> Callable[[int, int], None]:
        """Return a task for ranges of samples that records the span of each."""

        def traced(begin: int, end: int) -> None:
            with self.traced(begin, end - 1):
                task(begin, end)

        return traced

    def arguments(self, node: GraphNode) -> Arguments:
        """Return the arguments of a node for this batch."""
        values: dict[str, TensorListCPU] = {}
        for name, edge in node.argument_inputs.items():
            value = self.values[edge]
            assert isinstance(value, TensorListCPU)
            values[name] = value
        return Arguments(node, values, self.size)

    def siblings(self, sample: int) -> range:
        """Return the range of samples that are frames of the same sequence as `sample`.

        In a batch of frames, each frame is a sample with its own arguments. In other batches, a sample is alone.
        """
        return range(sample, sample + 1)

    def random_numbers(self, node: GraphNode) -> RandomNumbers:
        """Return the random numbers of a node for this batch."""
        state = self.request.random_states.get(node.index)
        if state is not None:
            return state.numbers
        if RANDOM_STATE.name in node.argument_inputs or RANDOM_STATE.name in node.arguments:
            states = self.arguments(node).rows(RANDOM_STATE.name, np.int64)
            digest = hashlib.blake2b(np.concatenate(states).tobytes(), digest_size=8).digest()
            return RandomState(int.from_bytes(digest, "little"), 0, BatchKey()).numbers
        if node.own_seed is not None:
            return RandomState(node.own_seed, 0, self.request.key).numbers
        return RandomState(self.seed, node.random_stream, self.request.key).numbers

    def note_draws(self, node: GraphNode, *drawn: Sequence[Any] | Array) -> None:
        """Note what an operator has drawn, if someone asks for it.

        Args:
            node: the operator, whose schema has names for its `draws`.
            *drawn: for each name, the numbers of each sample.
        """
        if self.request.drawn is not None:
            self.request.drawn[node.index] = drawn

    def generator(self, node: GraphNode) -> np.random.Generator:
        """Return the random number generator of a node for this batch."""
        return self.random_numbers(node).generator()

    def uniform(self, node: GraphNode, count: int) -> Array:
        """Return numbers from [0, 1) for each sample, (size, count)."""
        size, positions = self._whole(node)
        return self.random_numbers(node).uniform((size, count))[positions]

    def sample_seeds(self, node: GraphNode) -> Array:
        """Return a seed for the generator of each sample, uint64.

        The numbers of a sample then depend neither on threads nor on the size of the batch.
        """
        size, positions = self._whole(node)
        return self.random_numbers(node).words(size)[positions]

    def sample_generators(self, node: GraphNode) -> Iterator[np.random.Generator]:
        """Return a generator for each sample, for operators that draw a different count for each.

        The numbers of a sample then depend neither on the size of the batch nor on other samples.
        """
        numbers = self.random_numbers(node)
        for start in self.sample_starts(node).tolist():
            yield philox(numbers.key, [start // NUMBERS_PER_COUNT, *numbers.counter.tolist()[1:]])

    def sample_starts(self, node: GraphNode) -> UInt64s:
        """Return where the numbers of each sample start in the sequence of the generator: see `sample_generators`."""
        size, positions = self._whole(node)
        starts: UInt64s = np.arange(size, dtype=np.uint64)[positions] * np.uint64(MOST_NUMBERS)
        return starts

    def _whole(self, node: GraphNode) -> tuple[int, Array | slice]:
        """Return how many samples a node draws numbers for, and which of these samples are this batch.

        The numbers of a sample don't depend on the branches of other samples, unless a state for each sample is passed.
        """
        if self.request.branch is None or RANDOM_STATE.name in node.argument_inputs:
            return self.size, slice(None)
        return self.request.branch

    def source_of(self, node: GraphNode, failures: Sequence[SampleFailure]) -> str:
        """Return the origin of an operator's first failed sample in its data set, such as a file name; may be empty."""
        return self.reads.source_info(node.inputs[0], failures[0].sample) if node.inputs and failures else ""

    def title(self, node: GraphNode, sample: int) -> str:
        """Return the name of a sample of an operator's first input, for warnings: its file or index, if known."""
        position = sample if self.positions is None else int(self.positions[sample])
        source = self.reads.source_info(node.inputs[0], position)
        return repr(source) if source else self.request.title(position)

    def in_full_batch(self, failures: Sequence[SampleFailure]) -> tuple[SampleFailure, ...]:
        """Return failures of samples of this batch with their positions in the full batch."""
        positions = self.positions
        if positions is None:
            return tuple(failures)
        return tuple(SampleFailure(int(positions[each.sample]), each.error) for each in failures)


class BatchView(Batch):
    """Other samples, with the resources and outputs of a batch."""

    def __init__(self, batch: Batch, size: int) -> None:
        vars(self).update(vars(batch), size=size, chosen={}, output_memory=no_output_memory)


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
