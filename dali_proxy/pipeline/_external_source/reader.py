"""Read samples or batches from a source, in the pipeline's process or in workers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from dali_proxy.pipeline._concurrency.interrupts import is_interrupt
from dali_proxy.pipeline._external_source.data import to_batch
from dali_proxy.pipeline._external_source.spec import Cycle, SourceSpec
from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline._user_functions.seeding import Caller
from dali_proxy.pipeline.errors import InputError, InputTypeError, MissingOutputError
from dali_proxy.pipeline.types import BatchInfo, SampleInfo


class EndOfData(Exception):
    """A source has no more data in this epoch.

    Attributes:
        position: position of the source; see `SourceReader.position`.
    """

    def __init__(self, position: int = 0) -> None:
        super().__init__(position)
        self.position = position


class ReadFailure(Exception):
    """A source failed; the cause is `__cause__`."""

    def __init__(self, wanted: str, sample: int | None) -> None:
        super().__init__(wanted, sample)
        self.wanted = wanted
        self.sample = sample


class SourceReader(ABC):
    """Reads a source.

    Args:
        spec: the source.
        max_batch_size: batch size of the pipeline; sample numbers assume that all earlier batches had this size.
    """

    def __init__(self, spec: SourceSpec, max_batch_size: int) -> None:
        self.spec = spec
        self.max_batch_size = max_batch_size
        self._pass = _Pass(spec) if spec.iterable else None

    @abstractmethod
    def read(self, info: BatchInfo, first: int, count: int, caller: Caller) -> list[TensorList]:
        """Read the samples `first` .. ``first + count - 1`` of a batch; the whole batch if the source returns batches.

        Args:
            info: the batch.
            first: position of the first sample.
            count: number of samples.
            caller: calls the source.

        Returns:
            A batch for each output.

        Raises:
            EndOfData: the source has no more data.
            ReadFailure: the source failed, or returned a value that isn't data.
        """

    def skip(self, calls: int, epoch: int) -> None:
        """Ask an iterable source as often as before in this epoch's pass, to resume from a checkpoint."""
        assert self._pass is not None, "other sources get their position with each request"
        self._pass.skip(calls, epoch)

    def position(self, epoch: int) -> int:
        """Return how often the source was asked in an epoch's pass; 0 for sources that aren't iterated over."""
        return 0 if self._pass is None else self._pass.position(epoch)

    def _ask(self, wanted: SampleInfo | BatchInfo) -> Any:
        """Return what the source has for a sample or a batch."""
        if self._pass is not None:
            return self._pass.next(wanted.epoch_idx)
        if not self.spec.takes_info:
            return self.spec.source()
        by_number = self.spec.batch and not self.spec.batch_info
        return self.spec.source(wanted.iteration if by_number else wanted)

    def _outputs(self, value: Any) -> Sequence[Any]:
        """Split a value of the source into one value per output."""
        count = self.spec.num_outputs
        if count is None:
            return (value,)
        length = len(value) if hasattr(value, "__len__") else None
        if length != count:
            what = f"a {type(value).__name__}" + ("" if length is None else f" of {length}")
            kind = InputTypeError if length is None else MissingOutputError if length < count else InputError
            raise kind(f"the source returned {what}, but num_outputs={count} requires a tuple of {count}")
        return [value[number] for number in range(count)]


def _tuple_of(wanted: Any) -> tuple[Any]:
    return (wanted,)


class _SampleReader(SourceReader):
    """Reads a source of samples."""

    def read(self, info: BatchInfo, first: int, count: int, caller: Caller) -> list[TensorList]:
        columns: list[list[Any]] = [[] for _ in range(self.spec.num_outputs or 1)]
        for position in range(first, first + count):
            idx_in_epoch = info.iteration * self.max_batch_size + position
            wanted = SampleInfo(idx_in_epoch, position, info.iteration, info.epoch_idx)
            try:
                sample = caller.call(position - first, self._ask, partial(_tuple_of, wanted))
                for column, value in zip(columns, self._outputs(sample), strict=True):
                    column.append(value)
            except StopIteration:
                raise EndOfData from None
            except BaseException as error:
                if is_interrupt(error):
                    raise
                raise ReadFailure(str(wanted), position) from error
        try:
            return [to_batch(column, None, "the source's samples") for column in columns]
        except BaseException as error:
            if is_interrupt(error):
                raise
            raise ReadFailure(str(info), None) from error


class _BatchReader(SourceReader):
    """Reads a source of batches."""

    def read(self, info: BatchInfo, first: int, count: int, caller: Caller) -> list[TensorList]:
        try:
            batch = caller.call(0, self._ask, lambda: (info,))
            return [to_batch(value, None, "the source's batch") for value in self._outputs(batch)]
        except StopIteration:
            raise EndOfData from None
        except BaseException as error:
            if is_interrupt(error):
                raise
            raise ReadFailure(str(info), None) from error


class _Pass:
    """Iterates over a source, repeatedly if its `Cycle` says so.

    Each epoch asks the iterator again, even after its end: some iterators then begin again.
    """

    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec
        self._iterator: Iterator[Any] | None = None
        self._epoch = 0
        self._ended = False  # in this epoch
        self._calls = 0  # of the iterator in this pass, including those at its end

    def position(self, epoch: int) -> int:
        """Return the number of calls of this pass so far; 0 in an epoch that begins another pass."""
        return 0 if self._spec.cycle is Cycle.RAISE and epoch != self._epoch else self._calls

    def next(self, epoch: int) -> Any:
        """Return the next item for an epoch. Raises StopIteration at the end of the data."""
        cycle = self._spec.cycle
        if epoch != self._epoch:
            self._epoch, self._ended = epoch, False
            if cycle is Cycle.RAISE:  # even if another source ended the epoch before this pass ended
                self._begin()
        if self._ended:
            raise StopIteration
        if self._iterator is None:
            self._begin()
        try:
            return self._take()
        except StopIteration:
            if cycle is Cycle.QUIET and self._calls > 1:  # after an empty pass, another one would be empty too
                self._begin()
                return self._take()
            self._ended = True
            raise

    def skip(self, calls: int, epoch: int) -> None:
        """Begin a pass in an epoch, and repeat its first calls."""
        self._epoch, self._ended = epoch, False
        self._begin()
        for _ in range(calls):
            with suppress(StopIteration):
                self._take()

    def _begin(self) -> None:
        self._iterator = self._spec.iterate()
        self._calls = 0

    def _take(self) -> Any:
        assert self._iterator is not None
        self._calls += 1
        return next(self._iterator)


def make_reader(spec: SourceSpec, max_batch_size: int) -> SourceReader:
    """Return the `SourceReader` of a source."""
    return (_BatchReader if spec.batch else _SampleReader)(spec, max_batch_size)
