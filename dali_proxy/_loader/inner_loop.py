"""A loop over the inner loader: it gets batches of placeholders from workers, or makes them in this process."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from itertools import islice
from multiprocessing.process import BaseProcess
from typing import Any

from dali_proxy._common.signals import interrupts_later
from dali_proxy._loader.batches import Made, Pause, Unmade
from dali_proxy._loader.generators import copy_of
from dali_proxy._loader.inner_loader import InnerLoader
from dali_proxy._loader.numbered_datasets import NumberedItems, NumberedSampler
from dali_proxy._loader.resume import LoaderState, SamplerState
from dali_proxy._worker.batch_context import without_context
from dali_proxy.errors import ProxyError
from pipeline._concurrency.forking import no_forks

__all__ = ["InnerLoop"]


class InnerLoop:
    """A loop over the inner loader.

    It may run inside a sample of another loop, in the same thread, so it leaves that one's context alone.

    Args:
        loader: the inner loader.
        sampler: numbers its batches; None where the dataset does.
        sampler_state: knows where the user's sampler is.
    """

    def __init__(self, loader: InnerLoader, sampler: NumberedSampler | None, sampler_state: SamplerState) -> None:
        self._loader = loader
        self._sampler = sampler
        self._sampler_state = sampler_state
        self._batches: Iterator[Any] | None = None
        self._held: Made | Unmade | Pause | None = None  # it came while the sampler raised

    def __len__(self) -> int:
        return len(self._loader)

    @property
    def begun(self) -> bool:
        """Whether there is an epoch to go on with."""
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
        self._held = None
        if self._sampler is not None:
            self._sampler.epoch = start.epoch
            self._sampler.start = self._sampler_state.start(start, goes_on)
        generator = self._loader.generator
        if not start.seeded and start.kind != "datapipe":  # what a new iterator draws is then no part of the order
            self._loader.generator = copy_of(generator)
        # Whoever draws random numbers holds a lock of torch's generator, which workers want first of all: one that
        # another thread forked just then would wait for it for ever.
        with interrupts_later(), no_forks:
            batches = self._begin_batches()
            self._loader.generator = generator
            if self._items is not None:
                self._items.begin()  # it draws random numbers now, and not at the first `next`
        if start.kind == "datapipe":  # nobody but the pipes knows where they are: they begin anew
            with without_context():
                for _ in islice(batches, start.batches):
                    pass
        self._batches = batches

    def next(self) -> Made | Unmade:
        """Wait for the next batch.

        Raises:
            StopIteration: the epoch has ended.
            BaseException: the sampler raised it. The next call goes on.
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
        self._batches = self._held = None

    def _next(self) -> Made | Unmade | Pause:
        assert self._batches is not None
        with without_context():
            made: Made | Unmade | Pause = next(self._batches)
            return made

    def _begin_batches(self) -> Iterator[Any]:
        try:
            with without_context():
                return iter(self._loader)
        except AssertionError as error:
            if not multiprocessing.current_process().daemon:
                raise
            raise ProxyError(
                f"a loader with num_workers={self._loader.num_workers} can't start workers in this process, which is a "
                "loader's worker or another daemonic process: Python lets these have no children. Use num_workers=0 "
                "for a loop inside a worker"
            ) from error

    @property
    def _items(self) -> NumberedItems | None:
        return None if self._sampler is None else self._sampler.items
