"""Reads many ranges of open files into one buffer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dali_proxy.pipeline._arrays import Int64s
from dali_proxy.pipeline._bulk.buffer_pool import BufferPool
from dali_proxy.pipeline._bulk.native import compiled, threads_for
from dali_proxy.pipeline._concurrency.cost import Cost, charge
from dali_proxy.pipeline._concurrency.thread_pool import Job, ThreadPool
from dali_proxy.pipeline._kernels.samples import Samples
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU

_ALIGNMENT = 64  # bytes


@dataclass(frozen=True, eq=False)
class FileRanges:
    """Ranges of open files: the samples of a dataset, each with an entry for each output.

    Attributes:
        files: file descriptors, (E, outputs).
        positions: first byte of each range in its file.
        sizes: number of bytes; -1 if the range exceeds its file.
        buffers: source of the memory for batches.
    """

    files: Int64s
    positions: Int64s
    sizes: Int64s
    buffers: BufferPool


class Ranges:
    """The ranges of a batch.

    Attributes:
        complete: whether all ranges are within their files, and were read.
    """

    def __init__(self, ranges: FileRanges, entries: Sequence[int]) -> None:
        columns = (ranges.files, ranges.positions, ranges.sizes)
        self._files, self._positions, self._sizes = (column[entries] for column in columns)
        self.complete = self._dropped = False
        self._memory: Array | None = None
        if self._sizes.min() >= 0:
            aligned = -(-self._sizes.ravel() // _ALIGNMENT) * _ALIGNMENT
            ends = np.cumsum(aligned)
            self._offsets = (ends - aligned).reshape(self._sizes.shape)
            self._memory = ranges.buffers.array((int(ends[-1]),), np.dtype(np.uint8))

    def start(self, pool: ThreadPool) -> Job:
        """Start reading with as many threads as the pool has; the caller waits for the job.

        The compiled loop starts its own threads, which don't need the GIL; one thread of the pool waits for them.
        """
        return pool.start(lambda _: self._read_all(pool.num_threads), 1)

    def drop(self) -> None:
        """Don't start to read the ranges: the batch is no longer needed."""
        self._dropped = True

    def _read_all(self, threads: int) -> None:
        if compiled is not None and self._memory is not None and not self._dropped:
            read = np.zeros_like(self._sizes)
            threads = threads_for(self._sizes.size, threads)
            columns = (self._files, self._positions, self._sizes, self._offsets, read)
            charge(Cost(*compiled.read_ranges(threads, self._memory, *columns)))
            self.complete = np.array_equal(read, self._sizes)

    def output(self, number: int, dtype: np.dtype[Any]) -> TensorListCPU:
        """Return the samples of an output: 1-D arrays of a dtype. The ranges must be complete."""
        assert self._memory is not None
        starts: Array = self._memory.ctypes.data + self._offsets[:, number]
        shapes = self._sizes[:, number, None] // dtype.itemsize
        return TensorListCPU.from_table(Samples.contiguous(starts, shapes, dtype), [self._memory])
