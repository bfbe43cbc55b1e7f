"""Runs a built pipeline: collects the data of each batch, prefetches, and returns outputs in order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dali_proxy.pipeline._cache.value_cache import ValueCache
from dali_proxy.pipeline._concurrency.interrupts import is_interrupt
from dali_proxy.pipeline._concurrency.latch import Latch
from dali_proxy.pipeline._definition.arguments import PipelineArguments
from dali_proxy.pipeline._definition.inputs import FedInputs, check_sizes
from dali_proxy.pipeline._definition.output_declarations import OutputDeclarations
from dali_proxy.pipeline._definition.sources import SourceGroup
from dali_proxy.pipeline._definition.submitting import Submitter
from dali_proxy.pipeline._executor.depth import Depth
from dali_proxy.pipeline._executor.executor import Executor
from dali_proxy.pipeline._external_source.reader import EndOfData
from dali_proxy.pipeline._graph import Graph
from dali_proxy.pipeline._graph.reasons import reason_of
from dali_proxy.pipeline._operator_api.reader import ReaderPosition
from dali_proxy.pipeline._operator_api.request import BatchRequest, BatchResult, TensorList
from dali_proxy.pipeline._ranks import current_ranks
from dali_proxy.pipeline._rng import BatchKey, global_batch
from dali_proxy.pipeline.errors import PipelineError
from dali_proxy.pipeline.tensors.gpu import TensorListGPU

Outputs = tuple[TensorList, ...]


@dataclass(frozen=True)
class Position:
    """The position of a run: its next batch, and the positions of its sources and readers.

    Attributes:
        epoch: number of the epoch.
        iteration: number of the batch within its epoch.
        sources: number of calls of each iterable source in this pass over it, by operator.
        readers: position of each reader's next batch, by operator.
    """

    epoch: int = 0
    iteration: int = 0
    sources: dict[str, int] | None = None
    readers: dict[str, ReaderPosition] | None = None


class _StartedBatch:
    """A batch in flight, or one that failed before it was submitted."""

    def __init__(self, position: Position, declared: OutputDeclarations) -> None:
        self.position = position
        self._declared = declared
        self._finished = Latch()
        self._result: BatchResult | None = None
        self._error: BaseException | None = None

    def finish(self, result: BatchResult) -> None:
        self._result = self._declared.checked(result)
        self._finished.open()

    def fail(self, error: BaseException) -> None:
        self._error = error
        self._result = BatchResult()
        self._finished.open()

    def outputs(self) -> Outputs:
        self.wait()
        error, self._error = self._error, None  # the frames in its traceback reference this object
        if error is not None:
            raise error
        assert self._result is not None
        if self._result.error is not None:
            raise self._result.error
        return self._result.outputs

    def wait(self) -> None:
        self._finished.wait()

    @property
    def is_finished(self) -> bool:
        return self._finished.is_open


def _without_frames(error: BaseException) -> BaseException:
    """Drop the tracebacks of an exception and of those behind it."""
    behind: list[BaseException | None] = [error]
    while behind:
        each = behind.pop()
        if each is not None and each.__traceback__ is not None:
            each.__traceback__ = None
            behind += [each.__cause__, each.__context__]
    return error


class PipelineRunner:
    """Runs the batches of a graph: keeps several in flight and returns their outputs in order.

    Only one thread may use it; but any thread may call `submit` and `inputs.feed`. An error belongs to its batch: it
    is raised when that batch is taken. A runner must not reference its pipeline, so that dropping the pipeline ends it.

    Args:
        graph: the graph to run.
        arguments: arguments of the pipeline.
        sources: the user's sources; the runner closes them.
        iter_setup: called before each batch, to feed inputs; `StopIteration` ends the epoch. None for no call.
        cache: has decoded samples; None for no cache.

    Attributes:
        executor: executor of the graph.
        submit: runs one batch for a caller that supplies the fed inputs and has many batches in flight, such as a
            server; see `Submitter.submit`.
        inputs: queues of the batches that the user feeds.
        output_stream: CUDA stream of the outputs that were taken last, or None.
    """

    def __init__(
        self,
        graph: Graph,
        arguments: PipelineArguments,
        sources: SourceGroup,
        iter_setup: Callable[[], Any] | None = None,
        cache: ValueCache | None = None,
    ) -> None:
        self._owner = os.getpid()
        self._rank: int | None = None  # in this epoch; None before its first batch
        self._declared = arguments.output_declarations
        self._declared.check_count(len(graph.outputs))
        self.output_stream: Any = None
        self.executor = Executor(graph, arguments.executor_config(), functions=sources.functions, cache=cache)
        self.inputs = FedInputs(graph.fed_inputs)
        self._sources = sources
        self._submitter = Submitter(self.executor, sources, self._declared)
        adds_nothing = not len(sources) and self._declared.is_empty
        self.submit = self.executor.submit if adds_nothing else self._submitter.submit
        self._arguments = arguments
        self._depth = arguments.depth(uses_gpu=graph.uses_gpu)
        self._search = self._depth_search(iter_setup)
        if self.executor.batches_to_merge:
            self.executor.widen(self._depth)
        self._iter_setup = iter_setup
        self._started: deque[_StartedBatch] = deque()
        self._scheduled = 0  # batches that were scheduled and not taken
        self._epoch = 0
        self._iteration = 0
        self._ended = False  # the data has ended; no batch starts before reset()
        self._end = Position()  # position of that end

    def _depth_search(self, iter_setup: Callable[[], Any] | None) -> Depth | None:
        """Return the search for the number of batches in flight; None if it is fixed.

        It may grow only where the user's code can't see it: readers alone supply the data, and small batches merge.
        """
        arguments, executor = self._arguments, self.executor
        calls_user = iter_setup is not None or executor.graph.inputs or executor.calls_user
        if calls_user or not (arguments.exec_pipelined and arguments.exec_async):
            return None
        most = executor.batches_to_merge
        return Depth(self._depth, most, executor.widen, merges=True) if most > self._depth else None

    def schedule(self) -> None:
        """Request one more batch. Start it, and later ones if their data exists.

        Raises:
            MissingInputError: an input has no data; nothing was scheduled.
            PipelineError: this process is a forked child of that which built the pipeline.
        """
        self.executor.check_process()
        scheduled = self._scheduled + 1
        depth = self._depth if self._search is None else self._search.value
        while not self._ended and len(self._started) < scheduled + depth - 1:
            needed = len(self._started) < scheduled
            if not (self._iter_setup or (self.inputs.ready if needed else self.inputs.fresh)):
                if needed and not self.inputs.may_wait:
                    raise self.inputs.missing()
                break  # take() waits for the data and starts the batch
            self._start(ahead=not needed)
        self._scheduled = scheduled
        if not self._arguments.exec_async:
            for started in self._started:
                started.wait()

    def run(self, feed: Callable[[], None] | None) -> Outputs:
        """Feed inputs, schedule a batch and take it.

        An interrupted batch is dropped with the data that was fed for it, so that the next call gets its own batch.

        Raises:
            MissingInputError: an input has no data; the data that was fed stays.
            StopIteration: the data has ended.
            PipelineError: the batch failed.
        """
        scheduled = self._scheduled
        try:
            if feed is None and self._iter_setup is None:
                self.schedule()
            else:
                with self.inputs.feeding():
                    if feed is not None:
                        feed()
                    self.schedule()
            return self.take()
        except BaseException:
            if self._scheduled > scheduled:  # the batch was scheduled and not taken
                self._scheduled = scheduled
                if self._started:
                    self._started.popleft()
            raise

    def take(self) -> Outputs:
        """Wait for the oldest batch and return its outputs.

        Raises:
            StopIteration: the data has ended, or no batch was scheduled.
            PipelineError: the batch failed.
        """
        self.executor.check_process()
        if not self._scheduled:
            raise StopIteration("no batch was scheduled: call schedule_run() or run() first")
        self._scheduled -= 1
        if not self._started:
            if self._ended:
                raise StopIteration
            self.inputs.wait()
            self._start()
            if not self._started:
                raise StopIteration
        started = self._started.popleft()
        limits = not started.is_finished
        outputs = started.outputs()
        if self._search is not None:
            self._search.finish(limits, sum([output.nbytes for output in outputs]))
        self.output_stream = None
        for output in outputs:
            if isinstance(output, TensorListGPU):
                self.output_stream = output.stream
                break
        return outputs

    @property
    def busy(self) -> bool:
        """Whether batches are in flight."""
        return bool(self._started)

    def reset(self) -> None:
        """Begin the next epoch if the data has ended. Batches in flight come first."""
        if self._ended:
            self._ended = False
            self._epoch += 1
            self._iteration = 0
            self._rank = None
            self._scheduled = min(self._scheduled, len(self._started))

    @property
    def position(self) -> Position:
        """The position as the user sees it: before the oldest batch that was not taken."""
        if self._started:
            return self._started[0].position
        return self._end if self._ended else self._next_position()

    def restore(self, position: Position) -> None:
        """Resume at a position. Call it before the first batch."""
        self._epoch, self._iteration = position.epoch, position.iteration
        self._sources.skip(position.sources or {}, position.epoch)
        self.executor.readers.restore(position.readers or {})

    def close(self) -> None:
        """End threads and worker processes, and free the device. Does nothing in a forked child."""
        if os.getpid() != self._owner:
            return
        self.inputs.close()
        self._sources.close()
        self._submitter.close()
        self.executor.close()

    def _next_position(self) -> Position:
        if not self._arguments.enable_checkpointing:
            return Position(self._epoch, self._iteration)
        sources = self._sources.positions(self._epoch)
        return Position(self._epoch, self._iteration, sources, self.executor.readers.positions)

    def _start(self, ahead: bool = False) -> None:
        """Collect the data of the next batch and start it. Record errors, and the end of the data.

        A batch that a signal interrupts is dropped. Sources and readers stay in step and resume after it.

        Args:
            ahead: whether the batch isn't needed yet. Its error is kept without frames: the frames of callers reference
                the pipeline, so a pipeline that is dropped before the error is raised would never end.
        """
        started = _StartedBatch(self._next_position(), self._declared)
        failure: BaseException | None = None
        try:
            if self._iter_setup is not None:
                self._set_up(self._iter_setup)
            request = self._collect()
        except (EndOfData, StopIteration):
            self._ended = True
            self._end = started.position
            return
        except BaseException as error:  # noqa: BLE001 - an error of a source or of iter_setup() belongs to its batch
            self.executor.readers.skip(self._arguments.batch_size)
            failure = error
        else:
            try:
                self.executor.submit(request, started.finish, on_caller=True)
            except BaseException as error:  # noqa: BLE001 - errors of a reader, and of unsuitable inputs, do too
                failure = error
        self._iteration += 1
        if failure is not None:
            if is_interrupt(failure):
                try:
                    raise failure
                finally:
                    del failure  # its traceback references this frame: a cycle
            started.fail(_without_frames(failure) if ahead else failure)
            del failure  # its traceback references this frame: a cycle
        self._started.append(started)

    def _set_up(self, iter_setup: Callable[[], Any]) -> None:
        with self.inputs.feeding():
            try:
                iter_setup()
            except Exception:
                raise
            except BaseException as error:
                if is_interrupt(error):
                    raise
                raise PipelineError(f"iter_setup() failed: {reason_of(error)}") from error

    def _collect(self) -> BatchRequest:
        inputs = self.inputs.take()
        size = check_sizes(inputs) if inputs else self._arguments.batch_size
        if self._rank is None:
            self._rank = current_ranks().rank
        number = global_batch(self._rank, self._iteration)
        key = BatchKey(self._epoch, self._iteration, global_batch=number)
        if len(self._sources):
            inputs |= self._sources.next_batch(key, size, self.executor.copy_input)
            size = check_sizes(inputs)
        return BatchRequest(size, inputs, key)
