"""Copies the memory of many samples to one buffer."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pipeline._bulk.native import compiled
from pipeline._kernels.samples import Samples
from pipeline.tensors.cpu import Array, TensorListCPU

if TYPE_CHECKING:
    from pipeline._concurrency.thread_pool import ThreadPool

__all__ = ["Runs", "gather", "gathered"]

Int64s = npt.NDArray[np.int64]

_ALIGNMENT = 256  # bytes: where runs begin, for vector loads and DMA
_LINE = 64  # bytes: where samples begin on the host
_GAP = 1 << 14  # bytes between two samples that are copied with them: less than what another copy costs
_PIECE = 1 << 20  # bytes that one task copies


@dataclass(frozen=True, eq=False)
class Runs:
    """Stretches of memory that hold the samples of a batch, and their places side by side in a buffer.

    Samples that lie in the same block of memory close to each other are one run, so that a few copies are enough for
    a batch that a worker has written to its arena.

    Attributes:
        starts: (M,) int64, address of each run.
        sizes: (M,) int64, in bytes.
        places: (M,) int64, where each begins in the buffer.
        sample_places: (N,) int64, where each sample begins in the buffer.
        nbytes: size of the buffer.
    """

    starts: Int64s
    sizes: Int64s
    places: Int64s
    sample_places: Int64s
    nbytes: int

    @classmethod
    def of(cls, batch: TensorListCPU) -> Runs:
        """Return the runs of a batch whose samples are C-contiguous.

        Example:
            >>> block = np.zeros(1000, np.uint8)
            >>> table, _ = Samples.packed(block.ctypes.data, np.array([[100], [200]]), np.uint8)
            >>> runs = Runs.of(TensorListCPU.from_table(table, [block]))
            >>> runs.sizes.tolist(), runs.sample_places.tolist()
            ([456], [0, 256])
        """
        table = batch.table()
        order = np.argsort(table.pointers, kind="stable")
        begins = table.pointers[order]
        ends = np.maximum.accumulate(begins + table.sizes[order])
        begins_run = np.ones(len(table), np.bool_)
        homes = batch.homes
        if homes is not None:  # else nobody knows what lies between two samples
            apart = begins[1:] - ends[:-1] > _GAP
            begins_run[1:] = apart | (homes[order[1:]] != homes[order[:-1]])
        first = np.flatnonzero(begins_run)
        starts = begins[first]
        sizes = np.maximum.reduceat(ends, first) - starts
        room = -(-sizes // _ALIGNMENT) * _ALIGNMENT
        places = np.cumsum(room) - room
        run_of = np.cumsum(begins_run) - 1
        sample_places = np.empty(len(table), np.int64)
        sample_places[order] = begins - starts[run_of] + places[run_of]
        return cls(starts, sizes, places, sample_places, int(room.sum()))

    @classmethod
    def of_array(cls, array: Array) -> Runs:
        """Return the one run of a C-contiguous array with the batch dimension in front.

        Raises:
            ValueError: the array is not contiguous.
        """
        if not array.flags.c_contiguous:
            raise ValueError(f"an array of strides {array.strides} is not one run of memory")
        start, size, zero = (np.array([value]) for value in (array.ctypes.data, array.nbytes, 0))
        return cls(start, size, zero, np.arange(len(array)) * (array.nbytes // max(1, len(array))), array.nbytes)

    def copy_to(self, buffer: Array, pool: ThreadPool | None = None) -> None:
        """Copy all to a uint8 buffer, on the threads of a pool where there is one."""
        counts = -(-self.sizes // _PIECE)
        run = np.repeat(np.arange(len(counts)), counts)
        offsets = (np.arange(len(run)) - np.repeat(np.cumsum(counts) - counts, counts)) * _PIECE
        sizes = np.minimum(self.sizes[run] - offsets, _PIECE)
        _copy(buffer, self.starts[run] + offsets, sizes, self.places[run] + offsets, pool)


def gather(batch: TensorListCPU, buffer: Array, places: Int64s) -> None:
    """Copy the samples of a batch to places in a uint8 buffer, in C order.

    Raises:
        ValueError: one does not fit there.
    """
    table = batch.table()
    if not table.is_contiguous():
        for sample, place in zip(batch.samples, places.tolist(), strict=True):
            np.ndarray(sample.shape, sample.dtype, buffer=buffer, offset=place)[...] = sample
        return
    _copy(buffer, np.ascontiguousarray(table.pointers), table.sizes, places)


def gathered(batch: TensorListCPU) -> TensorListCPU:
    """Return a copy of a batch whose samples lie side by side in memory of its own."""
    table = batch.table()
    placed, nbytes = Samples.packed(0, table.shapes, table.dtype, _LINE)
    buffer = np.empty(nbytes, np.uint8)
    gather(batch, buffer, placed.pointers)
    starts = buffer.ctypes.data + placed.pointers
    return TensorListCPU.from_table(replace(placed, pointers=starts), [buffer], layout=batch.layout())


def _copy(buffer: Array, pointers: Int64s, sizes: Int64s, places: Int64s, pool: ThreadPool | None = None) -> None:
    """Copy `sizes` bytes at `pointers` to their places."""
    count, nbytes = len(sizes), int(sizes.sum())

    def copy(begin: int, end: int) -> None:
        if compiled is not None:
            compiled.gather(begin, end, buffer, pointers, sizes, places)
            return
        for pointer, size, place in zip(*(each[begin:end].tolist() for each in (pointers, sizes, places)), strict=True):
            if not 0 <= place <= place + size <= buffer.nbytes:
                raise ValueError("a sample does not fit into the buffer")
            ctypes.memmove(buffer.ctypes.data + place, pointer, size)

    if pool is None or pool.busy or nbytes <= _PIECE:  # a pool with work would come to this after it
        copy(0, count)
    else:
        pool.run_ranges(copy, count, max(1, count * _PIECE // nbytes))
