"""Reads the batches of a data set, in order, before they are asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipeline._bulk.files import BatchOfFiles
from pipeline._concurrency.thread_pool import Job, ThreadPool
from pipeline._readers.loader import FilesLoader, Loader
from pipeline._readers.order import Order
from pipeline._readers.sharding import Cursor, Sharding
from pipeline.errors import OperatorError, SampleFailure
from pipeline.tensors.cpu import Array, TensorListCPU

__all__ = ["Column", "FilesReading", "ReadAhead", "Reading", "Sources"]

#: The samples of one output: a batch, an array with a row a sample, or an array a sample.
Column = TensorListCPU | Array | Sequence[Array]


class Sources(Sequence[str]):
    """Where the samples of a batch lie in their data set; texts are made when they are asked for."""

    def __init__(self, loader: Loader, entries: Sequence[int]) -> None:
        self._loader = loader
        self._entries = entries

    def __getitem__(self, sample: Any) -> Any:
        if isinstance(sample, slice):
            return [self._loader.source_info(entry) for entry in self._entries[sample]]
        return self._loader.source_info(self._entries[sample])

    def __len__(self) -> int:
        return len(self._entries)


class Reading:
    """A batch whose samples are being read, each by a task of its own.

    Args:
        entries: of the data set, one a sample.
        loader: reads them.
        pool: its threads do it.

    Attributes:
        sources: where the samples lie in the data set.
    """

    def __init__(self, entries: Sequence[int], loader: Loader, pool: ThreadPool) -> None:
        self.entries = entries
        self.sources = Sources(loader, entries)
        self._loader = loader
        self._samples: list[Any] = [None] * len(entries)
        self._unwanted = False
        self._job = self._start(pool)

    def _start(self, pool: ThreadPool) -> Job:
        return pool.start(self._read_sample, len(self.entries))

    def _read_sample(self, sample: int) -> None:
        if not self._unwanted:
            self._samples[sample] = self._loader.read(self.entries[sample])

    def drop(self) -> None:
        """Read no more of it: nobody waits."""
        self._unwanted = True

    def wait(self) -> Sequence[Column]:
        """Return the samples of each output when all are there.

        Raises:
            OperatorError: some can't be read; `failures` lists them.
        """
        errors = self._job.wait()
        if errors:
            raise OperatorError.from_failures([SampleFailure(sample, error) for sample, error in errors])
        return list(zip(*self._samples, strict=True))


class FilesReading(Reading):
    """A batch of whole files that is being read, many files a task.

    Args:
        entries: of the data set, one a sample.
        loader: knows their paths, and the other outputs.
        pool: its threads read.
    """

    def __init__(self, entries: Sequence[int], loader: FilesLoader, pool: ThreadPool) -> None:
        self._files_loader = loader
        self._files = BatchOfFiles(loader.paths.take(entries), loader.buffers)
        super().__init__(entries, loader, pool)

    def _start(self, pool: ThreadPool) -> Job:
        return self._files.start(pool)

    def drop(self) -> None:
        self._files.drop()

    def wait(self) -> Sequence[Column]:
        errors = self._job.wait()
        if errors:  # of memory, say: no file's
            raise errors[0][1]
        if self._files.failures:
            raise OperatorError.from_failures(self._files.failures)
        return [self._files.batch(), *self._files_loader.rest(self.entries)]


@dataclass(frozen=True)
class _Planned:
    """A batch, and where the next one begins."""

    reading: Reading
    end: Cursor


class ReadAhead:
    """Gives the batches of one reader. All methods belong to one thread at a time.

    Args:
        sharding: which part of the data set is read.
        order: in which order.
        loader: reads them.
        depth: batches to read ahead of those that were asked for.
        threads: how many read.
        name: of the threads.

    Attributes:
        cursor: where the next batch begins.
    """

    def __init__(
        self,
        sharding: Sharding,
        order: Order,
        loader: Loader,
        depth: int,
        threads: int,
        name: str,
    ) -> None:
        self.cursor = Cursor()
        self._sharding = sharding
        self._order = order
        self._loader = loader
        self._depth = depth
        self._threads = threads
        self._name = name
        self._pool: ThreadPool | None = None  # from the first batch on
        self._ahead: deque[_Planned] = deque()  # the batches from `cursor` on, all of one size

    def next(self, batch_size: int) -> Reading:
        """Begin the next batch, and read as many ahead, as if all had its size."""
        if self._ahead and len(self._ahead[0].reading.entries) != batch_size:
            self._forget()
        planned = self._ahead.popleft() if self._ahead else self._plan(self.cursor, batch_size)
        self.cursor = planned.end
        while len(self._ahead) < self._depth:
            tail = self._ahead[-1].end if self._ahead else self.cursor
            self._ahead.append(self._plan(tail, batch_size))
        return planned.reading

    def skip(self, batch_size: int) -> None:
        """Go on by a batch that nobody needs."""
        self._forget()
        _, self.cursor = self._sharding.take(self.cursor, batch_size)

    def seek(self, cursor: Cursor) -> None:
        """Go on from elsewhere."""
        self._forget()
        self.cursor = cursor

    def close(self) -> None:
        """End the threads. What is being read is waited for: an entry a thread, or a batch of files."""
        self._forget()
        if self._pool is not None:
            self._pool.close()

    def _plan(self, cursor: Cursor, batch_size: int) -> _Planned:
        if self._pool is None:
            self._pool = ThreadPool(self._threads, self._name)
        parts, end = self._sharding.take(cursor, batch_size)
        entries = [entry for epoch, offsets in parts for entry in self._order.entries(epoch, offsets).tolist()]
        loader = self._loader
        if isinstance(loader, FilesLoader):
            return _Planned(FilesReading(entries, loader, self._pool), end)
        return _Planned(Reading(entries, loader, self._pool), end)

    def _forget(self) -> None:
        while self._ahead:
            self._ahead.popleft().reading.drop()
