"""Run a step on the GPU again by its recorded launches, without its operators, if these would launch the same."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pipeline._compiler.batch_place import BatchPlace
from pipeline._compiler.plan import BatchStep
from pipeline._cuda.context import KernelContext
from pipeline._cuda.launch import Launch
from pipeline._cuda.launch_queue import LaunchQueue
from pipeline._cuda.packed_launches import PackedLaunches, packed_tables
from pipeline._cuda.reclaiming import is_full, reclaiming
from pipeline._graph.graph import Edge
from pipeline._operator_api.batch import Batch, no_output_memory
from pipeline.tensors.gpu import TensorListGPU

__all__ = ["RecordedStep"]

_Words = npt.NDArray[np.uint64]
_Scalars = tuple[np.generic, ...]
_Block = tuple[int, int]  # address and size

# Largest number of programs of a step: one for each size of batches, and for each shape of its inputs.
_MOST_PROGRAMS = 16


class _Output(NamedTuple):
    """An output of a step: a dense batch in memory that the step allocated, or in an input.

    Attributes:
        block: index of the allocation; those of the inputs follow.
        offset: offset of the batch in it, in bytes.
        shape, dtype, layout: those of the batch.
    """

    block: int
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    layout: str

    @classmethod
    def from_batch(cls, value: Any, blocks: Sequence[_Block]) -> _Output | None:
        """Describe a batch; return None if it is anything else."""
        array = value.dense if isinstance(value, TensorListGPU) else None
        if array is None or not array.flags.c_contiguous:
            return None
        address = int(array.data.ptr)
        for block, (begin, size) in enumerate(blocks):
            if begin <= address < begin + size:
                return cls(block, address - begin, tuple(array.shape), array.dtype, value.layout())
        return None


@dataclass(frozen=True, eq=False)
class _Recording:
    """What a step did for a batch.

    Attributes:
        launches: the launches.
        allocated: addresses and sizes of the device memory that it allocated.
        inputs: its inputs.
        sizes: number of bytes from the first byte of each input to its last one.
        outputs: its outputs.
        drawn: scalars of launches that depend on the random numbers of the batch.
    """

    launches: Sequence[Launch]
    allocated: Sequence[_Block]
    inputs: Sequence[BatchPlace]
    sizes: Sequence[int]
    outputs: Sequence[_Output]
    drawn: Sequence[_Scalars]

    def blocks(self) -> list[_Block]:
        """Return addresses and sizes of the allocated memory, then of the inputs."""
        return [*self.allocated, *zip([each.address for each in self.inputs], self.sizes, strict=True)]


class _Program:
    """The launches of a step, and the words of their tables that are addresses.

    Args:
        recording: what the step did for one batch.
    """

    def __init__(self, recording: _Recording) -> None:
        import cupy

        self._array, self._pointer = cupy.ndarray, cupy.cuda.MemoryPointer
        self._allocate = reclaiming(cupy.cuda.alloc)
        self._sizes = [size for _, size in recording.allocated]
        self._outputs = recording.outputs
        #: By block: the number of the output that begins there.
        self._begins = {each.block: number for number, each in enumerate(recording.outputs) if not each.offset}
        tables = packed_tables(recording.launches)
        words = tables.view(np.uint64)
        positions, blocks, words[positions] = _addresses(words, recording.blocks())
        self._packed = PackedLaunches(tuple(recording.launches), tables, np.stack([positions * 8, blocks], axis=1))
        #: For each launch: the index of its scalars among those that depend on random numbers, or None.
        self._drawn = [_index(recording.drawn, launch.scalars) for launch in recording.launches]

    def _scalars(self, drawn: Sequence[_Scalars]) -> list[_Scalars | None]:
        return [None if index is None else drawn[index] for index in self._drawn] if drawn else []

    def confirms(self, other: _Recording) -> bool:
        """Return whether the program would have done what the step did for another batch."""
        if self._sizes != [size for _, size in other.allocated] or self._outputs != other.outputs:
            return False
        mine = self._packed.unpacked([address for address, _ in other.blocks()], (), self._scalars(other.drawn))
        same = list(map(_frame, mine)) == list(map(_frame, other.launches))
        return same and packed_tables(mine).tobytes() == packed_tables(other.launches).tobytes()

    def run(
        self,
        kernels: KernelContext,
        batch: Batch,
        inputs: Sequence[BatchPlace],
        drawn: Sequence[_Scalars],
        results: Sequence[Edge],
    ) -> list[TensorListGPU]:
        """Launch, and return the outputs, which are the results of the step."""
        memory: list[Any] = []
        for block, size in enumerate(self._sizes):
            number = self._begins.get(block)
            given = None if number is None else batch.output_memory(results[number], size)
            memory.append(given or self._allocate(size))
        if self._packed.launches:
            addresses = (*[each.ptr for each in memory], *[each.address for each in inputs])
            kernels.repeat(self._packed, addresses, batch.stream, scalars=self._scalars(drawn))
        outputs = []
        for block, offset, shape, dtype, layout in self._outputs:
            if block < len(memory):
                pointer = memory[block] + offset if offset else memory[block]
            else:
                owner, address = inputs[block - len(memory)].memory, inputs[block - len(memory)].address
                pointer = self._pointer(owner, address - int(owner.ptr) + offset)
            outputs.append(TensorListGPU.from_dense(self._array(shape, dtype, pointer), layout))
        return outputs


def _index(drawn: Sequence[_Scalars], scalars: _Scalars) -> int | None:
    """Return which of the drawn scalars are those of a launch; None for constants."""
    return drawn.index(scalars) if scalars and scalars in drawn else None


def _addresses(words: _Words, blocks: Sequence[_Block]) -> tuple[Any, Any, _Words]:
    """Return the positions of words that are addresses in blocks, the block of each, and its offset there.

    The first of several blocks counts, so it comes last: images of an input may lie on both sides of allocated memory.
    """
    owners = np.full(len(words), -1)
    for block, (begin, size) in reversed(list(enumerate(blocks))):
        owners[(words >= begin) & (words < begin + max(size, 1))] = block
    positions = np.flatnonzero(owners >= 0)  # each once, although inputs may be the same memory
    found = owners[positions]
    begins = np.array([begin for begin, _ in blocks], np.uint64)
    return positions, found, words[positions] - begins[found]


def _frame(launch: Launch) -> tuple[Hashable, ...]:
    """Return everything of a launch except its tables."""
    return launch.file, launch.kernel, launch.defines, launch.grid, launch.scalars


def _moved(one: _Recording, other: _Recording) -> bool:
    """Return whether two recordings use different memory, so that their words tell addresses from other values."""
    return all(mine[0] != its[0] for mine, its in zip(one.allocated, other.allocated, strict=False))


def _occupy(queue: LaunchQueue, blocks: Sequence[_Block]) -> list[Any] | None:
    """Allocate the memory of blocks, if it is free; return None if the GPU doesn't have twice as much.

    The step needs as much again. So a batch that fits into the GPU's memory also fits while it is recorded.

    Args:
        queue: an unused queue.
        blocks: addresses and sizes.
    """
    import cupy

    try:
        occupied, _ = ([cupy.cuda.alloc(size) for _, size in blocks] for _ in range(2))
    except Exception as error:
        if not is_full(error):
            raise
        return None
    finally:
        queue.release()
    return occupied


class RecordedStep:
    """A step whose launches depend on nothing but the shapes of its inputs, the size of the batch, and seeds.

    Two batches of each kind are recorded. If the addresses of memory and the seeds are the only differences between
    their launches, later batches repeat these launches with other addresses and seeds.

    Args:
        step: the step.
        results: outputs that other steps read, or that the pipeline returns.
        operators: implementations of all nodes, by index.
        kernels: context of the launches.
    """

    def __init__(
        self, step: BatchStep, results: Sequence[Edge], operators: Mapping[int, Any], kernels: KernelContext
    ) -> None:
        own = {node.index for node in step.nodes}
        self._inputs = sorted({edge for node in step.nodes for edge in node.inputs if edge.node not in own})
        self._results = [edge for edge in results if edge.node in own]
        self._random = [operators[node.index] for node in step.nodes if node.schema.random]
        self._kernels = kernels
        #: By kind of batch: the first recording, the program, or None if the step must always run.
        self._known: dict[Hashable, _Recording | _Program | None] = {}
        #: Whether batches of one kind have come twice.
        self._recurs = False

    @staticmethod
    def fits(step: BatchStep, operators: Mapping[int, Any]) -> bool:
        """Return whether the launches of a step may be the same for each batch."""
        return all(
            node.device == "gpu"
            and not (node.argument_inputs or node.branch)
            and operators[node.index].traits.repeatable
            and (not node.schema.random or hasattr(operators[node.index], "seed_scalars"))
            for node in step.nodes
        )

    def run(self, batch: Batch, run_operators: Callable[[], None]) -> bool:
        """Compute the results of the step and store them in the batch; return False if nothing was done.

        Args:
            batch: the batch.
            run_operators: runs the operators of the step.
        """
        if len(self._known) >= _MOST_PROGRAMS and not self._recurs:
            return False  # images of many sizes: each batch is of another kind
        inputs: list[BatchPlace] = []
        for edge in self._inputs:
            described = BatchPlace.of(batch.outputs[edge])
            if described is None:
                return False
            inputs.append(described)
        key = (batch.size, *[each.kind for each in inputs])
        known = self._known.get(key)
        self._recurs = self._recurs or known is not None
        if isinstance(known, _Program):
            outputs = known.run(self._kernels, batch, inputs, self._drawn(batch), self._results)
            for edge, output in zip(self._results, outputs, strict=True):
                batch.keep(edge, output)
            return True
        if known is None and (key in self._known or len(self._known) >= _MOST_PROGRAMS):
            return False
        recording = self._record(batch, inputs, [] if known is None else known.allocated, run_operators)
        if recording is None or known is None or not _moved(known, recording):
            self._known[key] = recording
        else:
            program = _Program(known)
            self._known[key] = program if program.confirms(recording) else None
        return True

    def _record(
        self,
        batch: Batch,
        inputs: Sequence[BatchPlace],
        occupied: Sequence[_Block],
        run_operators: Callable[[], None],
    ) -> _Recording | None:
        """Run the operators. Return what they did, or None if they didn't only add launches to the queue.

        Args:
            batch: the batch.
            inputs: inputs of the step.
            occupied: memory that an earlier recording used, if it is free. It isn't used again.
            run_operators: runs the operators of the step.
        """
        self._kernels.open_queue()
        queue, held = self._kernels.queue, len(batch.keep_alive)
        if queue is not None:  # of the steps before
            queue.flush()
            queue.release()
        flushes, *used = (0, 0, 0) if queue is None else queue.state
        spare = None if queue is None or any(used) else _occupy(queue, occupied)
        output_memory, batch.output_memory = batch.output_memory, no_output_memory  # which the queue doesn't keep
        try:
            run_operators()
            batch.outputs.compute(self._results)
        finally:
            batch.output_memory = output_memory
        if queue is None or spare is None or queue.state[0] > flushes:
            return None
        if not all(isinstance(each, TensorListGPU) for each in batch.keep_alive[held:]):
            return None  # data of the CPU, which was copied
        launches = queue.waiting
        allocated = [(int(each.ptr), int(each.mem.size)) for each in queue.kept]
        sizes = [each.nbytes for each in inputs]
        owned = [(each.address, size if each.memory else 0) for each, size in zip(inputs, sizes, strict=True)]
        blocks = [*allocated, *owned]
        outputs = [_Output.from_batch(batch.outputs[edge], blocks) for edge in self._results]
        found = [output for output in outputs if output is not None]
        if len(found) < len(outputs):
            return None
        described = [each._replace(memory=None) for each in inputs]  # don't keep the memory
        return _Recording(launches, allocated, described, sizes, found, self._drawn(batch))

    def _drawn(self, batch: Batch) -> list[_Scalars]:
        return [operator.seed_scalars(batch) for operator in self._random]
