"""Runs a built pipeline for a caller who takes batches one by one: feeding, prefetching and handing out."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future

from pipeline.errors import InputError, PipelineError
from pipeline.executor.executor import Executor
from pipeline.executor.request import BatchRequest, BatchResult, TensorList
from pipeline.graph.graph import GraphNode
from pipeline.rng import BatchKey

__all__ = ["Runner"]

Outputs = tuple[TensorList, ...]


class Runner:
    """Keeps up to `depth` batches in an executor and hands their outputs out in order.

    Args:
        executor: runs the batches.
        inputs: the inputs of the graph, by name.
        batch_size: of batches that have no inputs to tell theirs.
        depth: how many batches may be on their way.
    """

    def __init__(self, executor: Executor, inputs: Mapping[str, GraphNode], batch_size: int, depth: int) -> None:
        self._executor = executor
        self._batch_size = batch_size
        self.depth = depth
        self._fed: dict[str, deque[TensorList]] = {name: deque() for name in inputs}
        self._pending: deque[Future[BatchResult]] = deque()
        self._iteration = 0
        self._epoch = 0

    def feed(self, name: str, batch: TensorList) -> None:
        """Queue a batch for an input."""
        self._fed[name].append(batch)

    def schedule(self) -> None:
        """Start the next batch.

        Raises:
            InputError: when an input has no data, or inputs disagree about the size of the batch.
        """
        empty = [name for name, queue in self._fed.items() if not queue]
        if empty:
            raise InputError(
                f"the input {empty[0]!r} has no data: call feed_input({empty[0]!r}, ...) or run({empty[0]}=...) first"
            )
        inputs = {name: queue[0] for name, queue in self._fed.items()}
        sizes = {name: len(batch) for name, batch in inputs.items()}
        if len(set(sizes.values())) > 1:
            raise InputError(f"the inputs have batches of different sizes: {sizes}")
        future: Future[BatchResult] = Future()
        request = BatchRequest(
            batch_size=next(iter(sizes.values()), self._batch_size),
            inputs=inputs,
            key=BatchKey(self._epoch, self._iteration),
        )
        self._executor.submit(request, future.set_result)
        for queue in self._fed.values():
            queue.popleft()
        self._pending.append(future)
        self._iteration += 1

    def fill(self) -> None:
        """Start as many batches as there is data and room for."""
        while len(self._pending) < self.depth and all(self._fed.values()):
            self.schedule()

    def take(self) -> Outputs:
        """Wait for the oldest batch and return its outputs.

        Raises:
            PipelineError: the batch's own error, or when no batch was started.
        """
        if not self._pending:
            raise PipelineError("no batch was scheduled: call schedule_run() or run() first")
        result = self._pending.popleft().result()
        if result.error is not None:
            raise result.error
        return result.outputs

    @property
    def busy(self) -> bool:
        """Whether batches are on their way."""
        return bool(self._pending)

    @property
    def fed(self) -> bool:
        """Whether every input has data for another batch."""
        return all(self._fed.values())

    def reset(self) -> None:
        """Begin the next epoch: drop what is queued or on its way."""
        for queue in self._fed.values():
            queue.clear()
        while self._pending:
            self._pending.popleft().result()
        self._epoch += 1
        self._iteration = 0
