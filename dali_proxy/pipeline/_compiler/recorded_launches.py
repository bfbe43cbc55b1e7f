"""Launches of a step that are recorded: they depend on nothing but the kind of its inputs, and on seeds."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dali_proxy.pipeline._arrays import Int64s, UInt64s
from dali_proxy.pipeline._compiler.batch_place import BatchPlace
from dali_proxy.pipeline._compiler.plan import BatchStep
from dali_proxy.pipeline._compiler.prepared_launches import OutputPlace, PreparedLaunches
from dali_proxy.pipeline._cuda.context import KernelContext
from dali_proxy.pipeline._cuda.launch import Launch, address_offsets
from dali_proxy.pipeline._cuda.packed_launches import PackedLaunches, Scalars, packed_tables, table_offsets
from dali_proxy.pipeline._operator_api.batch import Batch, no_output_memory
from dali_proxy.pipeline.errors import PipelineError
from dali_proxy.pipeline.tensors.gpu import TensorListGPU

_Block = tuple[int, int]  # address and size

# Largest memory of an input, from the first image to the last, in bytes: more than a GPU has.
_MOST_BYTES = 1 << 38


@dataclass(frozen=True, eq=False)
class _Recording:
    """What a step did for a batch.

    Attributes:
        prepared: its launches.
        drawn: for each launch: the index of its scalars among those that depend on random numbers, or None.
    """

    prepared: PreparedLaunches
    drawn: Sequence[int | None]

    def scalars(self, drawn: Sequence[Scalars]) -> list[Scalars | None]:
        """Return the scalars of each launch for a batch; None for constants."""
        return [None if index is None else drawn[index] for index in self.drawn] if drawn else []

    def repeats(self, other: _Recording) -> bool:
        """Return whether a step did the same for two batches, except for addresses and seeds."""
        mine, its = self.prepared, other.prepared
        return (
            (mine.sizes, mine.outputs, self.drawn) == (its.sizes, its.outputs, other.drawn)
            and self._frames() == other._frames()
            and mine.packed.tables.tobytes() == its.packed.tables.tobytes()
            and mine.packed.places.tobytes() == its.packed.places.tobytes()
        )

    def _frames(self) -> list[Hashable]:
        """Return everything of the launches except their tables and seeds."""
        return [
            (each.file, each.kernel, each.defines, each.grid, each.scalars if index is None else None)
            for each, index in zip(self.prepared.packed.launches, self.drawn, strict=True)
        ]


class RecordedLaunches:
    """The launches of a step for inputs of one kind: those for one batch, with the addresses and seeds of another.

    A second batch must launch the same. Otherwise an operator isn't `repeatable`, and all batches run the operators.
    """

    def __init__(self, step: BatchStep, operators: Mapping[int, Any], kernels: KernelContext) -> None:
        self._step, self._kernels = step, kernels
        self._random = [operators[node.index] for node in step.nodes if node.schema.random]
        self._recording: _Recording | None = None
        #: Whether a second batch launched the same; None until it comes.
        self._repeats: bool | None = None

    @staticmethod
    def fits(step: BatchStep, operators: Mapping[int, Any]) -> bool:
        """Return whether the launches of a step may be the same for each batch."""
        return all(
            node.device == "gpu"
            and not (node.argument_inputs or node.branch)
            and all(operators[edge.node].node.output_device == "gpu" for edge in node.inputs)
            and operators[node.index].traits.repeatable
            and (not node.schema.random or hasattr(operators[node.index], "seed_scalars"))
            for node in step.nodes
        )

    def run(self, batch: Batch, inputs: Sequence[BatchPlace], run_operators: Callable[[], None]) -> bool:
        """Compute the results of the step and store them in the batch; return False if nothing was done."""
        known = self._recording
        if self._repeats is None:
            recording = self._recording = self._record(batch, inputs, run_operators)
            if known is not None or recording is None:
                self._repeats = known is not None and recording is not None and known.repeats(recording)
            if self._repeats is False and known is not None:
                raise PipelineError(f"{self._step.name} doesn't repeat its launches, so it isn't repeatable")
            return True
        if known is None or not self._repeats:
            return False
        scalars = known.scalars(self._drawn(batch))
        known.prepared.run(self._kernels, batch, self._step.results, inputs, scalars=scalars)
        return True

    def _drawn(self, batch: Batch) -> list[Scalars]:
        return [operator.seed_scalars(batch) for operator in self._random]

    def _record(
        self, batch: Batch, inputs: Sequence[BatchPlace], run_operators: Callable[[], None]
    ) -> _Recording | None:
        """Run the operators. Return what they did, or None if they didn't only add launches to the queue."""
        self._kernels.open_queue()
        queue, held = self._kernels.queue, len(batch.keep_alive)
        if queue is not None:  # of the steps before
            queue.flush()
            queue.release()
        flushes = 0 if queue is None else queue.flushes
        output_memory, batch.output_memory = batch.output_memory, no_output_memory  # which the queue doesn't keep
        try:
            run_operators()
            batch.outputs.compute(self._step.results)
        finally:
            batch.output_memory = output_memory
        if queue is None or queue.flushes > flushes:
            return None
        if not all(isinstance(each, TensorListGPU) for each in batch.keep_alive[held:]):
            return None  # data of the CPU, which was copied
        allocated = [(int(each.ptr), int(each.mem.size)) for each in queue.kept]
        sizes = [each.nbytes for each in inputs]
        if max(sizes, default=0) > _MOST_BYTES:
            return None  # its images are in the memory of several allocators: other numbers could be such addresses
        owned = [(each.address, size if each.memory else 0) for each, size in zip(inputs, sizes, strict=True)]
        outputs = [_output(batch.outputs[edge], [*allocated, *owned]) for edge in self._step.results]
        blocks = [*allocated, *zip([each.address for each in inputs], sizes, strict=True)]
        try:
            packed = _packed(queue.waiting, blocks)
        except PipelineError:
            self._repeats = False
            raise
        found = [output for output in outputs if output is not None]
        if packed is None or len(found) < len(outputs):
            return None
        drawn = self._drawn(batch)
        seeds = [drawn.index(each.scalars) if each.scalars in drawn else None for each in packed.launches]
        return _Recording(PreparedLaunches(packed, [size for _, size in allocated], found), seeds)


def _output(value: Any, blocks: Sequence[_Block]) -> OutputPlace | None:
    """Describe a dense batch in one of some blocks; return None for any other."""
    array = value.dense if isinstance(value, TensorListGPU) else None
    if array is None or not array.flags.c_contiguous:
        return None
    address = int(array.data.ptr)
    for block, (begin, size) in enumerate(blocks):
        if begin <= address < begin + size:
            return OutputPlace(block, address - begin, array.dtype, value.layout(), tuple(array.shape))
    return None


def _packed(launches: Sequence[Launch], blocks: Sequence[_Block]) -> PackedLaunches | None:
    """Return launches with offsets in blocks of memory in place of addresses; None if they use other memory."""
    tables = packed_tables(launches)
    words, places = tables.view(np.uint64), []
    offsets = [offset for each in table_offsets(launches) for offset in each]
    for table, offset in zip([table for each in launches for table in each.tables], offsets, strict=True):
        begins = offset + np.arange(table.size) * table.itemsize
        places += [begins + where for where in address_offsets(table.dtype)]
    positions = np.concatenate([np.empty(0, np.int64), *places]) // 8
    positions = positions[words[positions] != 0]
    owners = _owners(words[positions], blocks)
    if (owners < 0).any():
        return None
    if (_owners(np.delete(words, positions), blocks) >= 0).any():
        raise PipelineError(f"a table of {[each.kernel for each in launches]} has an address that it doesn't declare")
    words[positions] -= np.array([begin for begin, _ in blocks], np.uint64)[owners]
    return PackedLaunches(tuple(launches), tables, np.stack([positions * 8, owners], axis=1))


def _owners(words: UInt64s, blocks: Sequence[_Block]) -> Int64s:
    """Return the index of the first block that each address lies in, or -1.

    The images of an input may lie on both sides of allocated memory, which then counts.
    """
    owners = np.full(len(words), -1)
    for block, (begin, size) in reversed(list(enumerate(blocks))):
        owners[(words >= begin) & (words < begin + max(size, 1))] = block
    return owners
