"""Launches that are prepared once: for a batch, only addresses, rows of tables and seeds are filled in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dali_proxy.pipeline._compiler.batch_place import BatchPlace
from dali_proxy.pipeline._cuda.context import KernelContext
from dali_proxy.pipeline._cuda.packed_launches import PackedLaunches, Rows, Scalars
from dali_proxy.pipeline._cuda.reclaiming import reclaiming
from dali_proxy.pipeline._graph.graph import Edge
from dali_proxy.pipeline._kernels import Samples
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline.tensors.gpu import TensorListGPU


class OutputPlace(NamedTuple):
    """An output of prepared launches, in memory that they allocate, or in an input.

    Attributes:
        block: index of the memory: the allocations, then the inputs.
        offset: offset of the output in it, in bytes.
        dtype, layout: those of the batch.
        shape: shape of the batch, if it is dense.
        table: its samples at addresses relative to the output's, if it isn't dense.
    """

    block: int
    offset: int
    dtype: np.dtype[Any]
    layout: str
    shape: tuple[int, ...] | None = None
    table: Samples | None = None


@dataclass(frozen=True, eq=False)
class PreparedLaunches:
    """Launches, the memory that they need, and their outputs.

    Attributes:
        packed: the launches. Their addresses are those of the allocations, then those of the inputs.
        sizes: sizes of the allocations in bytes.
        outputs: the outputs.
    """

    packed: PackedLaunches
    sizes: Sequence[int]
    outputs: Sequence[OutputPlace]

    def run(
        self,
        kernels: KernelContext,
        batch: Batch,
        results: Sequence[Edge],
        inputs: Sequence[BatchPlace],
        rows: Sequence[Rows] = (),
        scalars: Sequence[Scalars | None] = (),
    ) -> None:
        """Launch, and add the outputs to a batch, with rows that replace parts of the tables, and scalars."""
        import cupy

        allocate = reclaiming(cupy.cuda.alloc)
        memory: list[Any] = [None] * len(self.sizes)
        for edge, (block, offset, *_, shape, _) in zip(results, self.outputs, strict=True):
            if block < len(memory) and not offset and shape is not None:
                memory[block] = batch.output_memory(edge, self.sizes[block])
        memory = [given or allocate(size) for given, size in zip(memory, self.sizes, strict=True)]
        if self.packed.launches:
            addresses = (*[each.ptr for each in memory], *[each.address for each in inputs])
            kernels.repeat(self.packed, addresses, batch.stream, rows, scalars)
        for edge, (block, offset, dtype, layout, shape, table) in zip(results, self.outputs, strict=True):
            if block < len(memory):
                pointer = memory[block] + offset if offset else memory[block]
            else:
                owner, address = inputs[block - len(memory)].memory, inputs[block - len(memory)].address
                pointer = cupy.cuda.MemoryPointer(owner, address - int(owner.ptr) + offset)
            if table is None:
                batch.keep(edge, TensorListGPU.from_dense(cupy.ndarray(shape, dtype, pointer), layout))
            else:
                placed = Samples(table.pointers + pointer.ptr, table.shapes, table.strides, dtype)
                batch.keep(edge, TensorListGPU.from_table(placed, pointer, pointer.device_id, layout))
