"""Runs a built pipeline for a caller who takes batches one by one: gathering, prefetching and handing out."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pipeline._concurrency.interrupts import is_interrupt
from pipeline._definition.inputs import FedInputs
from pipeline._definition.sources import SourceGroup
from pipeline._executor.executor import Executor
from pipeline._external_source.reader import EndOfData
from pipeline._graph.reasons import reason_of
from pipeline._operator_api.reader import ReaderPosition
from pipeline._operator_api.request import BatchRequest, BatchResult, TensorList
from pipeline._rng import BatchKey
from pipeline.errors import InputError, PipelineError
from pipeline.types import BatchInfo

__all__ = ["Position", "Runner"]

Outputs = tuple[TensorList, ...]

# Seconds after which a thread that waits looks for signals: one that comes as the wait begins doesn't end the wait.
_GLANCE = 1.0


@dataclass(frozen=True)
class Position:
    """Where a run is: before which batch, and how far sources and readers are.

    Attributes:
        epoch: number of the epoch.
        iteration: number of the batch within its epoch.
        sources: items read in this pass over each source, by operator.
        readers: where each reader's next batch begins, by operator.
    """

    epoch: int = 0
    iteration: int = 0
    sources: dict[str, int] | None = None
    readers: dict[str, ReaderPosition] | None = None


class _Started:
    """A batch that is on its way, or that failed before it got there."""

    def __init__(self, position: Position) -> None:
        self.position = position
        self._done = threading.Event()
        self._result = BatchResult()
        self._error: BaseException | None = None

    def finish(self, result: BatchResult) -> None:
        self._result = result
        self._done.set()

    def fail(self, error: BaseException) -> None:
        self._error = error
        self._done.set()

    def outputs(self) -> Outputs:
        self.wait()
        error, self._error = self._error, None  # the frames in its traceback hold this object
        if error is not None:
            raise error
        if self._result.error is not None:
            raise self._result.error
        return self._result.outputs

    def wait(self) -> None:
        while not self._done.wait(_GLANCE):
            pass


class Runner:
    """Keeps batches on their way in an executor, and hands their outputs out in order.

    Everything but `FedInputs.feed` belongs to one thread. An error belongs to its batch: it is raised when that
    batch is taken.

    Args:
        executor: runs the batches.
        inputs: what the user feeds.
        sources: what the user's sources give.
        batch_size: of batches that have no inputs to tell theirs.
        depth: how many batches may be on their way, those that nobody has asked for yet included.
        setup: called before each batch, to feed inputs; `StopIteration` ends the epoch. None for none.
        checkpoints: whether to keep note of how far sources and readers are.
        asynchronous: whether batches run while the caller goes on, or else are done when `schedule` returns.
    """

    def __init__(
        self,
        executor: Executor,
        inputs: FedInputs,
        sources: SourceGroup,
        batch_size: int,
        depth: int,
        setup: Callable[[], Any] | None = None,
        checkpoints: bool = False,
        asynchronous: bool = True,
    ) -> None:
        self._executor = executor
        self._inputs = inputs
        self._sources = sources
        self._batch_size = batch_size
        self._depth = depth
        self._setup = setup
        self._checkpoints = checkpoints
        self._asynchronous = asynchronous
        self._started: deque[_Started] = deque()
        self._wanted = 0  # batches that were scheduled and not taken
        self._epoch = 0
        self._iteration = 0
        self._ended = False  # the data has ended; nothing starts before reset()
        self._end = Position()  # where that was

    def schedule(self) -> None:
        """Ask for one more batch; start it, and others ahead of it as far as there is data.

        Raises:
            MissingInputError: an input has no data; nothing was scheduled then.
        """
        wanted = self._wanted + 1
        while not self._ended and len(self._started) < wanted + self._depth - 1:
            needed = len(self._started) < wanted
            if not (self._setup or (self._inputs.ready if needed else self._inputs.fresh)):
                if needed and not self._inputs.may_wait:
                    raise self._inputs.missing()
                break  # when it is taken, it is waited for and started
            self._start()
        self._wanted = wanted
        if not self._asynchronous:
            for started in self._started:
                started.wait()

    def run(self, feed: Callable[[], None]) -> Outputs:
        """Feed inputs, schedule a batch and take it.

        A batch that is interrupted is dropped with what was fed for it, so that the next call gets its own.

        Args:
            feed: feeds inputs.

        Raises:
            MissingInputError: an input has no data; what was fed stays.
            StopIteration: the data has ended.
            PipelineError: the batch's own error.
        """
        wanted = self._wanted
        try:
            with self._inputs.feeding():
                feed()
                self.schedule()
            return self.take()
        except BaseException:
            if self._wanted > wanted:  # it was scheduled and not taken
                self._wanted = wanted
                if self._started:
                    self._started.popleft()
            raise

    def take(self) -> Outputs:
        """Wait for the oldest batch and return its outputs.

        Raises:
            StopIteration: the data has ended, or nothing was scheduled.
            PipelineError: the batch's own error.
        """
        if not self._wanted:
            raise StopIteration("no batch was scheduled: call schedule_run() or run() first")
        self._wanted -= 1
        if not self._started:
            if self._ended:
                raise StopIteration
            self._inputs.wait()
            self._start()
            if not self._started:
                raise StopIteration
        return self._started.popleft().outputs()

    @property
    def busy(self) -> bool:
        """Whether batches are on their way."""
        return bool(self._started)

    def reset(self) -> None:
        """Begin the next epoch, if the data has ended. Batches that are on their way come first."""
        if self._ended:
            self._ended = False
            self._epoch += 1
            self._iteration = 0
            self._wanted = min(self._wanted, len(self._started))

    @property
    def position(self) -> Position:
        """Where the run is, as the user sees it: before the oldest batch that wasn't taken."""
        if self._started:
            return self._started[0].position
        return self._end if self._ended else self._now()

    def restore(self, position: Position) -> None:
        """Go on from a position, before the first batch."""
        self._epoch, self._iteration = position.epoch, position.iteration
        self._sources.skip(position.sources or {}, position.epoch)
        self._executor.readers.restore(position.readers or {})

    def drain(self) -> None:
        """Wait for what is on its way, and drop it."""
        while self._started:
            self._started.popleft().wait()

    def _now(self) -> Position:
        if not self._checkpoints:
            return Position(self._epoch, self._iteration)
        sources = self._sources.positions(self._epoch)
        return Position(self._epoch, self._iteration, sources, self._executor.readers.positions)

    def _start(self) -> None:
        """Gather the data of the next batch and start it; note the end of the data, and errors.

        A batch that a signal interrupts is dropped: sources and readers go on behind it, all of them in step.
        """
        started = _Started(self._now())
        failure: BaseException | None = None
        try:
            if self._setup is not None:
                self._set_up(self._setup)
            request = self._gather()
        except (EndOfData, StopIteration):
            self._ended = True
            self._end = started.position
            return
        except BaseException as error:  # noqa: BLE001 - a source's or iter_setup()'s error belongs to its batch
            self._executor.readers.skip(self._batch_size)
            failure = error
        else:
            try:
                self._executor.submit(request, started.finish)
            except BaseException as error:  # noqa: BLE001 - so does that of inputs that don't fit, and of a reader
                failure = error
        self._iteration += 1
        if failure is not None:
            if is_interrupt(failure):
                try:
                    raise failure
                finally:
                    del failure  # it holds this frame: a circle
            started.fail(failure)
        self._started.append(started)

    def _set_up(self, setup: Callable[[], Any]) -> None:
        with self._inputs.feeding():
            try:
                setup()
            except Exception:
                raise
            except BaseException as error:
                if is_interrupt(error):
                    raise
                raise PipelineError(f"iter_setup() failed: {reason_of(error)}") from error

    def _gather(self) -> BatchRequest:
        fed = self._inputs.take()
        size = len(next(iter(fed.values()))) if fed else self._batch_size
        info = BatchInfo(self._iteration, self._epoch)
        inputs = {**fed, **self._sources.next_batch(info, size)}
        sizes = {name: len(batch) for name, batch in inputs.items()}
        if len(set(sizes.values())) > 1:
            raise InputError(f"the inputs have batches of different sizes: {sizes}")
        return BatchRequest(
            batch_size=next(iter(sizes.values()), self._batch_size),
            inputs=inputs,
            key=BatchKey(info.epoch_idx, info.iteration),
        )
