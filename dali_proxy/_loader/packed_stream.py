"""`PackedStream`: packs the samples of an iterable dataset into batches by tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
from torch.utils.data import IterableDataset

from dali_proxy._loader.numbered_streams import state_of
from dali_proxy._loader.packing_plan import PackingPlan, SampleSizes
from dali_proxy.pipeline.errors import ArgumentValueError


class PackedStream(IterableDataset[Any]):
    """The batches of an iterable dataset, each with at most a number of tokens: for a loader with `batch_size=None`.

    It reads samples ahead until they fill `window` batches, and packs them as `PackedBatchSampler` does. Only then does
    it pass each sample to `transform`, which calls the proxy. Each worker packs its own part of the stream.

    The state says where the window begins: a run that resumes reads the window's samples once more. This takes the
    state of the dataset or its iterator, if it has `state_dict` and `load_state_dict`; otherwise the stream is read
    again from its beginning. As for all iterable datasets, the numbers of ranks and workers must stay the same.

    Args:
        dataset: iterable of samples, such as an `IterableDataset`. The samples have no placeholders yet.
        tokens: largest number of tokens of a batch.
        length: function that returns the number of tokens of a sample.
        cost: function that returns a further cost of a sample, or several, or None.
        transform: function that returns the sample for the batch, given a sample of the dataset.
        window: number of batches that are planned together.
        seed: seed of the order of a window's batches.

    Raises:
        ArgumentValueError: a number isn't positive; or, when it is read: a sample has more than `tokens` tokens.

    Example:
        >>> sorted(PackedStream("a bbb cc dddd".split(), 5, len, window=2))
        [['a', 'dddd'], ['bbb', 'cc']]
    """

    def __init__(
        self,
        dataset: Any,
        tokens: int,
        length: Callable[[Any], int],
        *,
        cost: Callable[[Any], Any] | None = None,
        transform: Callable[[Any], Any] | None = None,
        window: int = 32,
        seed: int = 0,
    ) -> None:
        for name, number in (("tokens", tokens), ("window", window)):
            if number < 1:
                raise ArgumentValueError(f"{name} must be 1 or more, not {number}")
        self._dataset, self._tokens, self._window, self._seed = dataset, tokens, window, seed
        self._length, self._cost, self._transform = length, cost, transform
        self._resumed: Mapping[str, Any] | None = None
        self._state: dict[str, Any] = {}

    def state_dict(self) -> dict[str, Any]:
        """Return the position: the beginning of the window, and the number of its batches that were read."""
        return dict(self._state if self._resumed is None else self._resumed)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume the next iterator at a position."""
        self._resumed = dict(state)

    def __iter__(self) -> Iterator[list[Any]]:
        state, self._resumed = self._resumed or {}, None
        number, read, done = (state.get(name, 0) for name in ("window", "samples", "done"))
        samples = self._samples(state.get("dataset"), state.get("iterator"), read)
        while True:
            self._state = {"window": number, "samples": read, "done": done}
            self._state |= {"dataset": state_of(self._dataset), "iterator": state_of(samples)}
            held = self._read(samples)
            if not held:
                return
            for batch in self._packed(held, number)[done:]:
                self._state["done"] += 1
                yield [each if self._transform is None else self._transform(each) for each in batch]
            number, read, done = number + 1, read + len(held), 0

    def _samples(self, dataset: Any, iterator: Any, read: int) -> Iterator[Any]:
        if dataset is not None:
            self._dataset.load_state_dict(dataset)
        samples: Any = iter(self._dataset)
        if iterator is not None:
            samples.load_state_dict(iterator)
        elif dataset is None:
            samples = islice(samples, read, None) if read else samples
        found: Iterator[Any] = samples
        return found

    def _read(self, samples: Iterator[Any]) -> list[tuple[Any, int]]:
        """Return the next samples, which fill a window, with their lengths."""
        held: list[tuple[Any, int]] = []
        room = self._window * self._tokens * _FULL
        while room > 0 and (sample := next(samples, _END)) is not _END:
            held.append((sample, int(self._length(sample))))
            room -= held[-1][1]
        return held

    def _packed(self, held: list[tuple[Any, int]], number: int) -> list[list[Any]]:
        costs = None if self._cost is None else [self._cost(sample) for sample, _ in held]
        sizes = SampleSizes([length for _, length in held], costs)
        plan = PackingPlan(np.arange(len(held)), sizes, self._tokens, self._window, 1, (self._seed, number))
        return [[held[each][0] for each in batch.tolist()] for batch in plan.rest().batches]


_END = object()
_FULL = 0.98  # of a window: samples can't be divided
