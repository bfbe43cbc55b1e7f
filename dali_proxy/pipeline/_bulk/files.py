"""Reads many files into one buffer."""

from __future__ import annotations

import os
from contextlib import suppress

import numpy as np

from dali_proxy.pipeline._arrays import Bytes
from dali_proxy.pipeline._bulk.buffer_pool import BufferPool
from dali_proxy.pipeline._bulk.native import compiled, threads_for
from dali_proxy.pipeline._bulk.paths import PathTable
from dali_proxy.pipeline._bulk.read_file import read_file
from dali_proxy.pipeline._concurrency.cost import Cost, charge
from dali_proxy.pipeline._concurrency.locks import Level, new_lock
from dali_proxy.pipeline._concurrency.thread_pool import Job, ThreadPool
from dali_proxy.pipeline._kernels.samples import Samples
from dali_proxy.pipeline._remote.request_threads import RequestThreads
from dali_proxy.pipeline._remote.urls import is_url
from dali_proxy.pipeline.errors import PipelineError, SampleFailure
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU

_CHUNK = 16  # maximum number of files per task when Python reads them
_LARGEST_GUESS = 1 << 20  # largest estimate of a file's size in bytes, before any file was read
_SPARE = 1.25  # factor of the largest batch so far, so that new buffers are rarely needed


class FileBuffers:
    """Memory for batches of files, reused after a batch has been freed.

    It is pinned for the GPU that receives the files: its engine reads pinned memory a third faster.

    Attributes:
        threads: the threads that fill it with files behind URLs.
    """

    def __init__(self, pin_for: int | None = None) -> None:
        self.threads = RequestThreads()
        self._pool = BufferPool(pin_for=pin_for)
        self._per_file = 0.0  # bytes per file of the batch with the largest files
        self._lock = new_lock(Level.LEAF, "file buffers")

    def take(self, paths: PathTable) -> Array:
        """Return memory that is probably large enough for the files."""
        if not self._per_file:
            self.note(len(paths), _size_of(paths))
        memory, _ = self._pool.memory(int(len(paths) * self._per_file * _SPARE))
        return memory

    def note(self, count: int, nbytes: int) -> None:
        """Record the size of a batch for later estimates."""
        with self._lock:
            self._per_file = max(self._per_file, nbytes / max(1, count))


def _size_of(paths: PathTable) -> int:
    """Estimate the total size of the files in bytes, limiting implausible sizes."""
    total = len(paths)
    for index in range(len(paths)):
        with suppress(OSError, ValueError):
            total += min(os.stat(paths.path(index)).st_size, _LARGEST_GUESS)
    return total


class BatchOfFiles:
    """A batch of files that several threads read concurrently.

    Args:
        paths: one path per sample.
        buffers: source of its memory.

    Attributes:
        failures: files that couldn't be read, in any order.

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
        self._offsets = np.full(len(paths), -1, np.int64)
        self._sizes = np.zeros(len(paths), np.int64)
        #: Contents of files that aren't in the batch's memory, by sample.
        self._separate: dict[int, Bytes] = {}
        self._cancelled = False

    def start(self, pool: ThreadPool) -> Job:
        """Start reading with as many threads as the pool has; the caller waits for the job.

        The compiled loop starts its own threads, which don't need the GIL; one thread of the pool waits for them.
        """
        count = len(self._paths)
        if compiled is not None:
            return pool.start(lambda _: self.read(0, count, pool.num_threads), 1)
        return pool.start_ranges(self.read, count, _CHUNK)

    def read_all(self, pool: ThreadPool) -> None:
        """Read all files and wait. With the compiled loop, no other Python thread wakes up."""
        if compiled is not None:
            self.read(0, len(self._paths), pool.num_threads)
            return
        self.start(pool).join()  # raises what isn't an error of a single file: out of memory, for example

    def drop(self) -> None:
        """Skip what hasn't been read yet: the batch is no longer needed."""
        self._cancelled = True

    def read(self, begin: int, end: int, threads: int = 1) -> None:
        """Read the files from `begin` to before `end`. Threads may call this concurrently for different ranges."""
        if self._cancelled:
            return
        paths = self._paths
        if compiled is not None:
            threads = threads_for(end - begin, threads)
            thread_cost = compiled.read_files(
                begin, end, threads, paths.folder, paths.scheme, self._memory, self._cursor,
                paths.pointers, paths.lengths, self._offsets, self._sizes,
            )  # fmt: skip
            charge(Cost(*thread_cost))
        # The remaining files didn't fit or can't be read. Python reads them, or raises the reason.
        rest: list[int] = (begin + np.flatnonzero(self._offsets[begin:end] < 0)).tolist()
        if rest and is_url(paths.path(rest[0])):
            failed = self._buffers.threads.run(lambda number: self._read_one(rest[number]), len(rest))
            if failed:  # not an error of a single file
                raise failed[0][1]
        else:
            for sample in rest:
                self._read_one(sample)

    def _read_one(self, sample: int) -> None:
        if self._cancelled:
            return
        try:
            self._separate[sample] = content = read_file(self._paths.path(sample))
            self._sizes[sample] = content.size
        except PipelineError as error:
            self.failures.append(SampleFailure(sample, error))

    def batch(self) -> TensorListCPU:
        """Return the contents, 1-D uint8 each, after all files were read."""
        self._buffers.note(len(self._paths), int(self._cursor[0]))
        blocks, homes = [self._memory], np.zeros(len(self._offsets), np.int64)
        starts = self._memory.ctypes.data + self._offsets
        for block, (sample, content) in enumerate(self._separate.items(), 1):
            blocks.append(content)
            homes[sample], starts[sample] = block, content.ctypes.data
        shapes = self._sizes[:, None]
        table = Samples(starts, shapes, np.ones_like(shapes), np.dtype(np.uint8))
        return TensorListCPU.from_table(table, blocks, homes)
