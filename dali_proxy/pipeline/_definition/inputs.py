"""`FedInputs`: a queue of fed batches for each input of a graph."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from dali_proxy.pipeline._concurrency.locks import Level, new_condition, new_rlock
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline.errors import InputError, MissingInputError, PipelineError


class FedInputs:
    """Batches that were fed and not used yet. Any thread may feed; one thread takes."""

    def __init__(self, nodes: Mapping[str, GraphNode]) -> None:
        self._lock = new_rlock(Level.LEAF, "fed inputs")  # guards the attributes below
        self._changed = new_condition(self._lock)
        self._queues: dict[str, deque[TensorList]] = {name: deque() for name in nodes}
        self._last: dict[str, TensorList | None] = {
            name: None for name, node in nodes.items() if node.argument("repeat_last")
        }
        self._blocking = {name for name, node in nodes.items() if node.argument("blocking")}
        self._closed = False

    def feed(self, name: str, batch: TensorList) -> None:
        """Queue a batch for an input."""
        with self._changed:
            self._queues[name].append(batch)
            self._changed.notify_all()

    @contextmanager
    def feeding(self) -> Iterator[None]:
        """Remove the batches that the block fed if it fails, so that the inputs stay in step.

        They stay if only data is missing: the caller may feed the rest.
        """
        with self._changed:
            before = {name: len(queue) for name, queue in self._queues.items()}
        try:
            yield
        except MissingInputError:
            raise
        except BaseException:
            with self._changed:
                for name, queue in self._queues.items():
                    while len(queue) > before[name]:
                        queue.pop()
            raise

    @property
    def ready(self) -> bool:
        """Whether every input has data for a batch."""
        last = self._last
        return all(queue or last.get(name) is not None for name, queue in self._queues.items())

    @property
    def fresh(self) -> bool:
        """Whether data exists for a batch that isn't merely a repetition of the last one."""
        return (not self._queues or any(self._queues.values())) and self.ready

    @property
    def may_wait(self) -> bool:
        """Whether all inputs without data are blocking, so that the caller may wait for them."""
        return self._blocking.issuperset(self._empty())

    def wait(self) -> None:
        """Wait until another thread has fed every blocking input.

        Raises:
            PipelineError: the pipeline was closed while this waited.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or not self._blocking.intersection(self._empty()))
            if self._closed:
                raise PipelineError("the pipeline was closed while it waited for data")

    def take(self) -> dict[str, TensorList]:
        """Return the next batch of every input.

        Raises:
            MissingInputError: an input has no data; no batch was taken.
        """
        with self._lock:
            if not self.ready:
                raise self.missing()
            return {name: self._next(name, queue) for name, queue in self._queues.items()}

    def missing(self) -> MissingInputError:
        """Return the error that names an input without data."""
        name = next(iter(self._empty()), "")
        return MissingInputError(
            f"the input {name!r} has no data: call feed_input({name!r}, ...) or run({name}=...) first"
        )

    def close(self) -> None:
        """Wake the waiting thread."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _empty(self) -> list[str]:
        return [name for name, queue in self._queues.items() if not queue and self._last.get(name) is None]

    def _next(self, name: str, queue: deque[TensorList]) -> TensorList:
        if not queue:
            last = self._last[name]
            assert last is not None  # _empty() checked it
            return last
        batch = queue.popleft()
        if name in self._last:
            self._last[name] = batch
        return batch


def check_sizes(batches: Mapping[str, TensorList]) -> int:
    """Return the size of the batches of a graph's inputs, at least one.

    Raises:
        InputError: their sizes differ.
    """
    size: int | None = None
    for batch in batches.values():
        if size is None:
            size = len(batch)
        elif len(batch) != size:
            by_name = {name: len(batch) for name, batch in batches.items()}
            raise InputError(f"the inputs have batches of different sizes: {by_name}")
    assert size is not None
    return size
