"""Batches in shared memory: one process packs them there, and another reads them in place."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._external_source.parallel.protocol import Output
from dali_proxy.pipeline._ipc.arena import ALIGNMENT, Arena, Block
from dali_proxy.pipeline.tensors.cpu import TensorListCPU

Bytes = npt.NDArray[np.uint8]


def pack(
    arena: Arena, batches: Sequence[TensorListCPU], lock: AbstractContextManager[Any] | None = None
) -> tuple[Block, tuple[Output, ...]]:
    """Copy batches into one block of shared memory. Return the block, and where in it each batch lies.

    Args:
        arena: the memory.
        batches: the batches.
        lock: lock to hold while the block is allocated; None for no lock.
    """
    outputs: list[Output] = []
    size = 0
    for batch in batches:
        output, size = _lay_out(batch, size)
        outputs.append(output)
    with lock or nullcontext():
        block = arena.allocate(size)
    memory = arena.view(block, (size,))
    for batch, output in zip(batches, outputs, strict=True):
        unpacked = unpack(memory, output)
        if unpacked.dense is None:
            for target, sample in zip(unpacked.samples, batch.samples, strict=True):
                target[...] = sample
        elif batch.dense is None:
            for position, sample in enumerate(batch.samples):
                unpacked.dense[position] = sample
        else:
            unpacked.dense[...] = batch.dense
    return block, tuple(outputs)


def _lay_out(batch: TensorListCPU, start: int) -> tuple[Output, int]:
    """Assign offsets to the samples of a batch, from `start` on. Return the offset for the next batch."""
    sample = batch.samples[0] if batch.dense is None else batch.dense[0]
    dense, dtype = batch.is_dense_tensor(), sample.dtype
    if dense:
        table = np.array([[start, len(batch), *sample.shape]], np.int64)
        end = start + len(batch) * sample.nbytes
    else:
        table = np.empty((len(batch), 1 + batch.ndim), np.int64)
        table[:, 1:] = batch.shape()
        sizes = (table[:, 1:].prod(axis=1) * dtype.itemsize + ALIGNMENT - 1) & -ALIGNMENT
        ends = start + sizes.cumsum()
        table[:, 0] = ends - sizes
        end = int(ends[-1])
    return Output(dtype.name, batch.layout(), dense, table.shape[1] - 1, table.tobytes()), _aligned(end)


def _aligned(nbytes: int) -> int:
    return (nbytes + ALIGNMENT - 1) & -ALIGNMENT


def unpack(memory: Bytes, output: Output) -> TensorListCPU:
    """Return a batch over memory, without a copy."""
    dtype = np.dtype(output.dtype)
    rows = np.frombuffer(output.table, np.int64).reshape(-1, 1 + output.ndim).tolist()
    arrays: list[npt.NDArray[Any]] = [np.ndarray(row[1:], dtype, buffer=memory, offset=row[0]) for row in rows]
    return TensorListCPU(arrays[0] if output.dense else arrays, output.layout)
