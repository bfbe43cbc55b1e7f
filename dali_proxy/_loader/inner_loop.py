"""A loop over the inner loader: it gets batches of placeholders from workers, or makes them in this process."""

from __future__ import annotations

import multiprocessing
import queue
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from multiprocessing.process import BaseProcess
from typing import Any

from dali_proxy._loader.batches import Made, NumberedIndices, Pause, Unmade
from dali_proxy._loader.generators import copy_of
from dali_proxy._loader.inner_loader import InnerLoader, maker
from dali_proxy._loader.numbered_datasets import NumberedItems, NumberedSampler
from dali_proxy._loader.queues import get_in_turns
from dali_proxy._loader.resume import LoaderState, SamplerState
from dali_proxy._worker.batch_context import without_context
from dali_proxy.errors import ProxyError
from pipeline._concurrency.forking import no_forks
from pipeline._ipc.signals import Interrupted, deferred_signals, let_through, raised_by_handler

__all__ = ["InnerLoop"]


class InnerLoop:
    """A loop over the inner loader.

    It may run inside a sample of another loop, in the same thread, so it doesn't change the context of that loop. No
    batch is lost when a signal handler raises: `next` and `make` run inside `deferred_signals`, and call handlers only
    while they wait or while the user's code runs.

    Args:
        loader: the inner loader.
        sampler: numbers its batches; None where the dataset does.
        sampler_state: knows where the user's sampler is.

    Attributes:
        make: makes a batch again in this process; None where that is impossible.
    """

    make: Callable[[NumberedIndices], Made | Unmade] | None

    def __init__(self, loader: InnerLoader, sampler: NumberedSampler | None, sampler_state: SamplerState) -> None:
        self._loader = loader
        self._sampler = sampler
        self._sampler_state = sampler_state
        self._batches: Iterator[Any] | None = None
        self._held: Made | Unmade | Pause | None = None  # it came while the sampler raised
        self._unmade: NumberedIndices | None = None  # without workers: it was drawn, and then a handler raised
        make = maker(loader)
        self.make = None if make is None else lambda numbered: _with_handlers(make, numbered)

    def __len__(self) -> int:
        return len(self._loader)

    @property
    def begun(self) -> bool:
        """Whether an epoch has begun and hasn't ended."""
        return self._batches is not None

    @property
    def timeout(self) -> float:
        """Seconds that a worker may take for a batch; 0 for any time."""
        return self._loader.timeout

    @property
    def workers(self) -> Sequence[BaseProcess]:
        """The worker processes."""
        workers: Sequence[BaseProcess] = getattr(self._batches, "_workers", ())  # torch has no public name for them
        return workers

    def begin(self, start: LoaderState, goes_on: bool) -> None:
        """Begin an epoch; arguments as for `LoaderIterator`."""
        self._held = self._unmade = None
        if self._sampler is not None:
            self._sampler.epoch = start.epoch
            self._sampler.start = self._sampler_state.start(start, goes_on)
        generator = self._loader.generator
        if not start.seeded and start.kind != "datapipe":  # what a new iterator draws isn't part of the order then
            self._loader.generator = copy_of(generator)
        # A thread that draws random numbers holds a lock of torch's generator, which workers need first of all: a
        # worker that another thread forked at that moment would wait for it forever.
        with no_forks, deferred_signals:  # Python drops what handlers raise in its hooks of a fork
            batches = self._begin_batches()
            self._loader.generator = generator
            if self._items is not None:
                self._items.begin()  # it draws random numbers now, and not at the first `next`
        if start.kind == "datapipe":  # only the pipes know where they are: they begin anew
            with deferred_signals:
                _with_handlers(_skip, batches, start.batches)
        pinned = getattr(batches, "_data_queue", None)  # torch has no public name for it
        if isinstance(pinned, queue.Queue) and "get" not in vars(pinned):
            get_in_turns(pinned)
        self._batches = batches

    def next(self) -> Made | Unmade:
        """Wait for the next batch.

        Raises:
            StopIteration: the epoch has ended.
            Interrupted: a signal handler raised. The next call returns the batch.
            BaseException: the sampler raised it. The next call returns the next batch.
        """
        while True:
            items = self._items
            if items is not None and items.failures:
                raise items.failures.popleft()
            made, self._held = self._held or self._next(), None
            if items is not None and items.failures:
                self._held = made
            elif not isinstance(made, Pause):
                return made

    def end(self) -> None:
        """Drop the epoch, and end its workers."""
        self._batches = self._held = self._unmade = None

    def _next(self) -> Made | Unmade | Pause:
        assert self._batches is not None
        made: Made | Unmade | Pause
        if self._loader.num_workers > 0:
            with without_context():
                made = next(self._batches)
        else:
            made = self._next_made_here(self._batches)
        return made

    def _next_made_here(self, batches: Iterator[Any]) -> Any:
        items = self._items
        before = None if items is None else items.last
        try:
            if self._unmade is not None and self.make is not None:
                made = self.make(self._unmade)
            else:
                made = _with_handlers(next, batches)
        except Interrupted as interrupted:  # by the dataset's exception, or a handler while the dataset was read
            if raised_by_handler(interrupted.args[0]):
                if items is not None and items.last is not before:
                    self._unmade = items.last
                raise
            error: BaseException = interrupted.args[0]
        else:
            self._unmade = None
            return made
        self._unmade = None
        try:
            raise error  # not above: its context would be the exception that refers to it
        finally:  # it refers to this frame, and to the caller's, which has tensors
            del error

    def _begin_batches(self) -> Iterator[Any]:
        try:
            with without_context():
                return iter(self._loader)
        except AssertionError as error:
            if not (self._loader.num_workers > 0 and multiprocessing.current_process().daemon):
                raise
            raise ProxyError(
                f"a loader with num_workers={self._loader.num_workers} can't start workers in this process, which is a "
                "loader's worker or another daemonic process: Python doesn't let these have children. Use "
                "num_workers=0 for a loop inside a worker"
            ) from error

    @property
    def _items(self) -> NumberedItems | None:
        return None if self._sampler is None else self._sampler.items


def _with_handlers(call: Callable[..., Any], *args: Any) -> Any:
    """Call the user's code: signal handlers are called meanwhile, and the code has no context of an outer loop."""
    with without_context():
        return let_through(call, *args)


def _skip(batches: Iterator[Any], count: int) -> None:
    deque(islice(batches, count), maxlen=0)
