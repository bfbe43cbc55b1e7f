"""Reads the batches of a dataset ahead of their use, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dali_proxy.pipeline._bulk.files import BatchOfFiles
from dali_proxy.pipeline._bulk.paths import PathTable
from dali_proxy.pipeline._bulk.ranges import FileRanges, Ranges
from dali_proxy.pipeline._concurrency.interrupts import pass_on_interrupt
from dali_proxy.pipeline._concurrency.thread_pool import Job, ThreadPool
from dali_proxy.pipeline._readers.loader import Column, FilesLoader, Loader
from dali_proxy.pipeline._readers.order import Order
from dali_proxy.pipeline._readers.sharding import Cursor, Sharding
from dali_proxy.pipeline.errors import OperatorError, SampleFailure


class Sources(Sequence[str]):
    """The origins of a batch's samples in their dataset. Each text is built on access."""

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
    """A batch that is being read, some samples per task."""

    def __init__(self, entries: Sequence[int], loader: Loader, pool: ThreadPool) -> None:
        self.entries = entries
        self.sources = Sources(loader, entries)
        self._loader = loader
        self._samples: list[Any] = [None] * len(entries)
        self._errors: list[tuple[int, BaseException]] = []
        self._unwanted = False
        self._job = self._start(pool)

    def _start(self, pool: ThreadPool) -> Job:
        count, together = len(self.entries), self._loader.together
        if together == 1:
            return pool.start(self._read_sample, count)
        return pool.start_ranges(self._read_range, count, together)

    def _read_range(self, begin: int, end: int) -> None:
        if self._unwanted:
            return
        try:
            self._samples[begin:end] = self._loader.read_together(self.entries[begin:end])
        except Exception as error:  # noqa: BLE001 - the sample that fails reports the error when it is read alone
            pass_on_interrupt(error)
            failed = ThreadPool.run_here(lambda number: self._read_sample(begin + number), end - begin)
            self._errors += [(begin + number, error) for number, error in failed]

    def _read_sample(self, sample: int) -> None:
        if not self._unwanted:
            self._samples[sample] = self._loader.read(self.entries[sample])

    def drop(self) -> None:
        """Skip what hasn't been read yet: the batch is no longer needed."""
        self._unwanted = True

    def wait(self) -> Sequence[Column]:
        """Wait until all samples have been read, and return those of each output.

        Raises:
            OperatorError: samples can't be read; `failures` lists them.
        """
        errors = self._job.wait()
        if self._loader.together > 1 and errors:  # not an error of a single sample: out of memory, for example
            raise errors[0][1]
        return self._collect(sorted([*errors, *self._errors], key=lambda error: error[0]))

    def _collect(self, errors: Sequence[tuple[int, BaseException]]) -> Sequence[Column]:
        if errors:
            raise OperatorError.from_failures([SampleFailure(sample, error) for sample, error in errors])
        samples, self._samples = self._samples, []  # the job, which refers to this object, mustn't keep them
        return list(zip(*samples, strict=True))


class FilesReading(Reading):
    """A batch of whole files that is being read, many files per task."""

    def __init__(self, entries: Sequence[int], loader: FilesLoader, paths: PathTable, pool: ThreadPool) -> None:
        self._files_loader = loader
        self._files = BatchOfFiles(paths, loader.buffers)
        super().__init__(entries, loader, pool)

    def _start(self, pool: ThreadPool) -> Job:
        return self._files.start(pool)

    def drop(self) -> None:
        self._files.drop()

    def wait(self) -> Sequence[Column]:
        self._job.join()  # raises what isn't an error of a single file: out of memory, for example
        if self._files.failures:
            raise OperatorError.from_failures(self._files.failures)
        return self._files_loader.parse(self._files.batch(), self.entries)


class RangesReading(Reading):
    """A batch of ranges of open files that is being read in one task.

    If a range can't be read, the loader reads the samples one by one, and reports the error.
    """

    def __init__(self, entries: Sequence[int], loader: Loader, ranges: FileRanges, pool: ThreadPool) -> None:
        self._ranges = Ranges(ranges, entries)
        super().__init__(entries, loader, pool)

    def _start(self, pool: ThreadPool) -> Job:
        return self._ranges.start(pool)

    def drop(self) -> None:
        self._ranges.drop()

    def wait(self) -> Sequence[Column]:
        self._job.join()  # raises what isn't an error of a single sample: out of memory, for example
        if not self._ranges.complete:
            return self._collect(ThreadPool.run_here(self._read_sample, len(self.entries)))
        return [self._ranges.output(number, np.dtype(spec.dtype)) for number, spec in enumerate(self._loader.outputs)]


@dataclass(frozen=True)
class _Planned:
    """A batch, and the cursor of the next one."""

    reading: Reading
    end: Cursor


class ReadAhead:
    """Reads the batches of one reader in order. Only one thread at a time may call its methods.

    Attributes:
        cursor: position of the next batch.
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
        self._pool: ThreadPool | None = None  # created for the first batch
        self._ahead: deque[_Planned] = deque()  # the batches from `cursor` on, all of one size

    def next(self, batch_size: int) -> Reading:
        """Return the next batch, and start to read ahead batches of the same size."""
        if self._ahead and len(self._ahead[0].reading.entries) != batch_size:
            self._forget()
        planned = self._ahead.popleft() if self._ahead else self._plan(self.cursor, batch_size)
        self.cursor = planned.end
        while len(self._ahead) < self._depth:
            tail = self._ahead[-1].end if self._ahead else self.cursor
            self._ahead.append(self._plan(tail, batch_size))
        return planned.reading

    def skip(self, batch_size: int) -> None:
        """Advance by one batch without reading it."""
        self._forget()
        _, self.cursor = self._sharding.take(self.cursor, batch_size)

    def seek(self, cursor: Cursor) -> None:
        """Continue from another position."""
        self._forget()
        self.cursor = cursor

    def close(self) -> None:
        """End the threads, after waiting for their current reads: an entry per thread, or a batch of files."""
        self._forget()
        if self._pool is not None:
            self._pool.close()

    def _plan(self, cursor: Cursor, batch_size: int) -> _Planned:
        if self._pool is None:
            self._pool = ThreadPool(self._threads, self._name)
        segments, end = self._sharding.take(cursor, batch_size)
        found = [self._order.entries(epoch, offsets) for epoch, offsets in segments]
        numbers = found[0] if len(found) == 1 else np.concatenate(found)
        entries, loader = numbers.tolist(), self._loader
        if isinstance(loader, FilesLoader) and loader.paths is not None:
            return _Planned(FilesReading(entries, loader, loader.paths.take(numbers), self._pool), end)
        if loader.ranges is not None:
            return _Planned(RangesReading(entries, loader, loader.ranges, self._pool), end)
        return _Planned(Reading(entries, loader, self._pool), end)

    def _forget(self) -> None:
        while self._ahead:
            self._ahead.popleft().reading.drop()
