"""Draws batches of placeholders from torch's loader, and loses none where a signal handler raises."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from typing import Any

from dali_proxy._loader.batches import Made, NumberedIndices, Unmade
from dali_proxy._loader.numbered_datasets import NumberedSampler
from dali_proxy._loader.numbered_streams import Pause
from dali_proxy._loader.queues import get_in_turns
from pipeline._ipc.signals import Interrupted, let_through, raised_by_handler

__all__ = ["Drawing"]


class Drawing:
    """Draws the batches of one epoch. Its user is inside `deferred_signals`.

    Args:
        inner: torch's iterator.
        has_workers: whether it has workers; else the dataset runs here, and handlers are called meanwhile.
        sampler: what the batches' indices come from, if it numbers them.
        make: makes a batch in this process; None where nothing can be made again.
    """

    def __init__(
        self,
        inner: Iterator[Any],
        has_workers: bool,
        sampler: NumberedSampler | None,
        make: Callable[[NumberedIndices], Made | Unmade] | None,
    ) -> None:
        self._inner = inner
        self._has_workers = has_workers
        self._items = None if sampler is None else sampler.items
        self._make = make
        self._unmade: NumberedIndices | None = None  # without workers: was drawn, and a handler raised then
        pinned = getattr(inner, "_data_queue", None)  # torch has no public name for it
        if isinstance(pinned, queue.Queue) and "get" not in vars(pinned):
            get_in_turns(pinned)

    def next(self) -> Made | Unmade:
        """Return the next batch.

        Raises:
            Interrupted: a handler raised; the next call returns the batch.
        """
        draw = self._with_workers if self._has_workers else self._without_workers
        made: Made | Unmade | Pause = draw()
        while isinstance(made, Pause):
            made = draw()
        return made

    def _with_workers(self) -> Any:
        return next(self._inner)

    def _without_workers(self) -> Any:
        before = None if self._items is None else self._items.last
        try:
            if self._unmade is not None and self._make is not None:
                made = let_through(self._make, self._unmade)
            else:
                made = let_through(next, self._inner)
            self._unmade = None
            return made
        except Interrupted as interrupted:  # by the dataset, or a handler while it read
            error: BaseException = interrupted.args[0]
            if not raised_by_handler(error):
                self._unmade = None
                raise error from error.__cause__
            if self._items is not None and self._items.last is not before:
                self._unmade = self._items.last
            raise
