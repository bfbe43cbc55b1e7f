"""Copies the memory of many samples to one buffer."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dali_proxy.pipeline._arrays import Int64s
from dali_proxy.pipeline._bulk.buffer_pool import BufferPool
from dali_proxy.pipeline._bulk.native import MOST_THREADS, compiled
from dali_proxy.pipeline._concurrency.cost import Cost, charge
from dali_proxy.pipeline._kernels.samples import Samples
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU

if TYPE_CHECKING:
    from dali_proxy.pipeline._concurrency.thread_pool import ThreadPool


_ALIGNMENT = 256  # bytes: alignment of ranges, for vector loads and DMA
_LINE = 64  # bytes: alignment of samples on the host
_GAP = 1 << 14  # bytes: largest gap between two samples to copy along, because another copy costs more
_PER_THREAD = 1 << 21  # bytes that justify another thread
_SMALL = 1 << 16  # bytes of a batch up to which NumPy copies its samples fastest


@dataclass(frozen=True, eq=False)
class MemoryRanges:
    """Contiguous ranges of memory that contain the samples of a batch, and their offsets in a packed buffer.

    Samples that are close to each other in one block of memory form one range, so that a few copies suffice for a batch
    that a worker has written to its arena.

    Attributes:
        starts: (M,) int64, address of each range.
        sizes: (M,) int64, size of each range in bytes.
        offsets: (M,) int64, offset of each range in the buffer.
        sample_offsets: (N,) int64, offset of each sample in the buffer.
        nbytes: size of the buffer.
    """

    starts: Int64s
    sizes: Int64s
    offsets: Int64s
    sample_offsets: Int64s
    nbytes: int

    @classmethod
    def from_batch(cls, batch: TensorListCPU) -> MemoryRanges:
        """Return the ranges of a batch whose samples are C-contiguous.

        Example:
            >>> block = np.zeros(1000, np.uint8)
            >>> table, _ = Samples.packed(block.ctypes.data, np.array([[100], [200]]), np.uint8)
            >>> ranges = MemoryRanges.from_batch(TensorListCPU.from_table(table, [block]))
            >>> ranges.sizes.tolist(), ranges.sample_offsets.tolist()
            ([456], [0, 256])
        """
        table = batch.table()
        order = np.argsort(table.pointers, kind="stable")
        begins = table.pointers[order]
        ends = np.maximum.accumulate(begins + table.sizes[order])
        begins_range = np.ones(len(table), np.bool_)
        homes = batch.homes
        if homes is not None:  # otherwise the memory between two samples is unknown
            apart = begins[1:] - ends[:-1] > _GAP
            begins_range[1:] = apart | (homes[order[1:]] != homes[order[:-1]])
        first = np.flatnonzero(begins_range)
        starts = begins[first]
        sizes = np.maximum.reduceat(ends, first) - starts
        room = -(-sizes // _ALIGNMENT) * _ALIGNMENT
        offsets = np.cumsum(room) - room
        range_of = np.cumsum(begins_range) - 1
        sample_offsets = np.empty(len(table), np.int64)
        sample_offsets[order] = begins - starts[range_of] + offsets[range_of]
        return cls(starts, sizes, offsets, sample_offsets, int(room.sum()))

    @classmethod
    def from_array(cls, array: Array) -> MemoryRanges:
        """Return the single range of a C-contiguous array whose first axis is the batch.

        Raises:
            ValueError: the array isn't contiguous.
        """
        if not array.flags.c_contiguous:
            raise ValueError(f"an array of strides {array.strides} isn't contiguous")
        start, size, zero = (np.array([value]) for value in (array.ctypes.data, array.nbytes, 0))
        return cls(start, size, zero, np.arange(len(array)) * (array.nbytes // max(1, len(array))), array.nbytes)

    def copy_to(self, buffer: Array, pool: ThreadPool | None = None) -> None:
        """Copy all ranges to a uint8 buffer, on as many threads as a pool has if one is given."""
        copy_ranges(buffer, self.starts, self.sizes, self.offsets, pool)


def gather(batch: TensorListCPU, buffer: Array, offsets: Int64s, pool: ThreadPool | None = None) -> None:
    """Copy the samples of a batch to offsets in a uint8 buffer, in C order, on as many threads as a pool has.

    Raises:
        ValueError: a sample doesn't fit.
    """
    table = batch.table()
    if not table.is_contiguous():
        for sample, offset in zip(batch.samples, offsets.tolist(), strict=True):
            np.ndarray(sample.shape, sample.dtype, buffer=buffer, offset=offset)[...] = sample
        return
    copy_ranges(buffer, np.ascontiguousarray(table.pointers), table.sizes, offsets, pool)


def gathered(batch: TensorListCPU, buffers: BufferPool | None = None, pool: ThreadPool | None = None) -> TensorListCPU:
    """Return a copy of a batch: one array if all samples have one shape, else samples packed in one block of memory.

    Without `buffers`, the memory is new.
    """
    dense = batch.dense
    if dense is None and batch.homes is None and batch.nbytes < _SMALL:
        array = batch.small_array()  # a copy, like the rows, without calls for each sample
        if array is not None:
            return TensorListCPU.from_dense(array, batch.layout())
        joined = batch.rows()
        if joined is not None:
            return TensorListCPU.from_rows(*joined, batch.layout())
    table = batch.table()
    is_dense = dense is not None or (len(table) > 0 and bool((table.shapes == table.shapes[0]).all()))
    packed, nbytes = Samples.packed(0, table.shapes, table.dtype, 1 if is_dense else _LINE)
    buffer, pinned = (np.empty(nbytes, np.uint8), False) if buffers is None else buffers.memory(nbytes)
    gather(batch, buffer, packed.pointers, pool)
    if is_dense:
        shape = (len(table), *table.shapes[0].tolist()) if dense is None else dense.shape
        result = TensorListCPU.from_dense(buffer.view(table.dtype).reshape(shape), batch.layout())
    else:
        starts = buffer.ctypes.data + packed.pointers
        result = TensorListCPU.from_table(replace(packed, pointers=starts), [buffer], layout=batch.layout())
    result.pinned = pinned
    return result


def writable(batch: Any) -> Any:
    """Return a batch that its user may write to: itself, or a copy of samples on the CPU that a cache keeps."""
    return gathered(batch) if isinstance(batch, TensorListCPU) and batch.read_only else batch


def copy_ranges(buffer: Array, pointers: Int64s, sizes: Int64s, offsets: Int64s, pool: ThreadPool | None) -> None:
    """Copy ranges of memory to a uint8 buffer.

    The compiled loop starts its own threads: those of the pool would each wait for the GIL.

    Args:
        buffer: target.
        pointers: address of each range, contiguous like the other arrays.
        sizes: size of each range in bytes.
        offsets: offset of each range in the buffer.
        pool: its number of threads may copy, unless it is busy; None for the calling thread only.

    Raises:
        ValueError: a range doesn't fit.
    """
    if compiled is not None:
        threads = 1
        if pool is not None and not pool.busy:
            threads = max(1, min(pool.num_threads, int(np.add.reduce(sizes)) // _PER_THREAD, MOST_THREADS))
        charge(Cost(*compiled.gather(threads, buffer, pointers, sizes, offsets)))
        return
    for pointer, size, offset in zip(pointers.tolist(), sizes.tolist(), offsets.tolist(), strict=True):
        if not 0 <= offset <= offset + size <= buffer.nbytes:
            raise ValueError("a sample doesn't fit into the buffer")
        ctypes.memmove(buffer.ctypes.data + offset, pointer, size)
