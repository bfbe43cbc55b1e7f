"""Reads many files into one buffer."""

from __future__ import annotations

import os
import threading
from contextlib import suppress

import numpy as np
import numpy.typing as npt

from pipeline._bulk.buffer_pool import BufferPool
from pipeline._bulk.native import compiled
from pipeline._bulk.paths import PathTable
from pipeline._bulk.read_file import read_file
from pipeline._concurrency.cost import Cost, charge
from pipeline._concurrency.thread_pool import Job, ThreadPool
from pipeline._kernels.samples import Samples
from pipeline.errors import PipelineError, SampleFailure
from pipeline.tensors.cpu import Array, TensorListCPU

__all__ = ["BatchOfFiles", "FileBuffers"]

_CHUNK = 16  # files that one task reads at most where Python reads them
_FEW = 4  # files that are worth a thread
_MOST_THREADS = 64
_LARGEST_GUESS = 1 << 20  # bytes of a file, before any was read
_SPARE = 1.25  # of the batch with the largest files so far: other buffers are made only where data sets change much


class FileBuffers:
    """Memory for batches of files, used again when nobody reads a batch any more.

    Args:
        pin_for: a GPU that the files go to: its engine reads pinned memory a third faster.
    """

    def __init__(self, pin_for: int | None = None) -> None:
        self._pool = BufferPool(pin_for=pin_for)
        self._per_file = 0.0  # bytes of the batch with the largest files
        self._lock = threading.Lock()

    def take(self, paths: PathTable) -> Array:
        """Return memory that these files should fit into."""
        if not self._per_file:
            self.note(len(paths), _size_of(paths))
        wanted = int(len(paths) * self._per_file * _SPARE)
        return self._pool.array((wanted,), np.dtype(np.uint8))

    def note(self, count: int, nbytes: int) -> None:
        """Take note of what a batch needed."""
        with self._lock:
            self._per_file = max(self._per_file, nbytes / max(1, count))


def _size_of(paths: PathTable) -> int:
    """Return about how many bytes these files have together, whatever absurd size one may claim to have."""
    total = len(paths)
    for index in range(len(paths)):
        with suppress(OSError, ValueError):
            total += min(os.stat(paths.path(index)).st_size, _LARGEST_GUESS)
    return total


class BatchOfFiles:
    """A batch of files that several threads read at once.

    Args:
        paths: a path a sample.
        buffers: where its memory comes from.

    Attributes:
        failures: files that can't be read, in any order.

    Example:
        >>> files = BatchOfFiles(PathTable.from_paths([__file__]), FileBuffers())
        >>> files.read(0, 1)
        >>> files.failures, files.batch().at(0).tobytes()[:3]
        ([], b'\"\"\"')
    """

    def __init__(self, paths: PathTable, buffers: FileBuffers) -> None:
        self.failures: list[SampleFailure] = []
        self._paths = paths
        self._buffers = buffers
        self._memory = buffers.take(paths) if compiled is not None else np.empty(0, np.uint8)
        self._cursor = np.zeros(1, np.int64)
        self._places = np.full(len(paths), -1, np.int64)
        self._sizes = np.zeros(len(paths), np.int64)
        #: Files that are not in the memory of the batch but in their own.
        self._apart: dict[int, npt.NDArray[np.uint8]] = {}
        self._unwanted = False

    def start(self, pool: ThreadPool) -> Job:
        """Begin to read all on as many threads as a pool has; the job is to be waited for.

        The compiled loop has threads of its own, which need no GIL; one of the pool waits for them.
        """
        count = len(self._paths)
        if compiled is not None:
            return pool.start(lambda _: self.read(0, count, pool.num_threads), 1)
        step = min(_CHUNK, -(-count // pool.num_threads))  # of few files each thread has some: disks may be slow
        return pool.start_ranges(self.read, count, max(1, step))

    def read_all(self, pool: ThreadPool) -> None:
        """Do as `start`, and wait here; the compiled loop then wakes no other thread of Python."""
        if compiled is not None:
            self.read(0, len(self._paths), pool.num_threads)
            return
        errors = self.start(pool).wait()
        if errors:  # of memory, say: no file's
            raise errors[0][1]

    def drop(self) -> None:
        """Read no more: nobody waits."""
        self._unwanted = True

    def read(self, begin: int, end: int, threads: int = 1) -> None:
        """Read the files from `begin` to before `end`; threads may call it for different ones at once.

        Args:
            begin: the first one.
            end: the one after the last.
            threads: how many read, if the compiled loop is there.
        """
        if self._unwanted:
            return
        paths = self._paths
        if compiled is not None:
            threads = max(1, min(threads, (end - begin) // _FEW, _MOST_THREADS))
            beside = compiled.read_files(
                begin, end, threads, paths.folder, paths.scheme, self._memory, self._cursor,
                paths.pointers, paths.lengths, self._places, self._sizes,
            )  # fmt: skip
            charge(Cost(*beside))
        # What is left did not fit, or can't be read: Python knows why.
        for sample in (begin + np.flatnonzero(self._places[begin:end] < 0)).tolist():
            try:
                self._apart[sample] = content = read_file(paths.path(sample))
                self._sizes[sample] = content.size
            except PipelineError as error:
                self.failures.append(SampleFailure(sample, error))

    def batch(self) -> TensorListCPU:
        """Return the contents, 1-D uint8 each, after all were read."""
        self._buffers.note(len(self._paths), int(self._cursor[0]))
        blocks, homes = [self._memory], np.zeros(len(self._places), np.int64)
        starts = self._memory.ctypes.data + self._places
        for block, (sample, content) in enumerate(self._apart.items(), 1):
            blocks.append(content)
            homes[sample], starts[sample] = block, content.ctypes.data
        shapes = self._sizes[:, None]
        table = Samples(starts, shapes, np.ones_like(shapes), np.dtype(np.uint8))
        return TensorListCPU.from_table(table, blocks, homes)
