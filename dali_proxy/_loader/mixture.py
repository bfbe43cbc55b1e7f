"""`Mixture`: several datasets as one, with weights that may change while a model is trained."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from torch.utils.data import Dataset

from dali_proxy.pipeline._readers.order import permutation
from dali_proxy.pipeline._rng import BatchKey, RandomState
from dali_proxy.pipeline.errors import ArgumentValueError

Weights = Mapping[str, float] | Callable[[int], Mapping[str, float]]
Counts = npt.NDArray[np.int64]

_BLOCK = 1024  # draws with the same weights
_DRAWS, _PASSES = 2, 3  # streams of random numbers


class Mixture(Dataset[Any]):
    """Several map-style datasets as one, of which each contributes by its weight.

    The indices are those of the datasets one after another. `order` draws the indices of an epoch: pass it to
    `PackedBatchSampler` or `DistributedBatchSampler`. Each dataset is read in random order without repeats; when it is
    used up, it starts again in another order, also across epochs. The order is a function of seed and epoch, so a run
    resumes exactly.

    Args:
        datasets: the datasets, by name.
        weights: for each name a weight; they needn't sum to 1. Or a function that returns the weights, given the number
            of samples that were drawn since epoch 0, for a curriculum. It must return the same on all ranks, and in a
            run that resumes; it is called every 1,024 samples.
        samples: number of samples of an epoch; by default, that of all datasets.
        seed: seed of the orders; it must be the same on all ranks.
        key: samples that are mappings get the number of their dataset under this key; None to leave them unchanged.

    Raises:
        ArgumentValueError: a dataset is empty, or weights are negative, all 0, or don't have the names of the datasets.

    Attributes:
        names: names of the datasets.

    Example:
        >>> mixture = Mixture({"text": [1, 2, 3], "images": [4, 5]}, {"text": 0.9, "images": 0.1}, samples=1000)
        >>> mixture.count(mixture.order(0))["text"] > 850
        True
    """

    def __init__(
        self,
        datasets: Mapping[str, Any],
        weights: Weights,
        *,
        samples: int | None = None,
        seed: int = 0,
        key: str | None = "source",
    ) -> None:
        self.names = tuple(datasets)
        self._datasets = tuple(datasets.values())
        self._lengths = np.array([len(each) for each in self._datasets], np.int64)
        empty = [name for name, length in zip(self.names, self._lengths, strict=True) if not length]
        if empty or not self.names:
            raise ArgumentValueError(f"the datasets {', '.join(empty)} are empty" if empty else "there are no datasets")
        self._ends = np.cumsum(self._lengths)
        self._weights, self._seed, self._key = weights, seed, key
        self._samples = int(self._ends[-1]) if samples is None else samples
        self._drawn: dict[int, Counts] = {0: np.zeros(len(self.names), np.int64)}  # samples of each before an epoch
        _ = self._shares(0)  # raises now if they are wrong

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < len(self):
            raise IndexError(f"index {index} is out of range of {len(self)} samples")
        source = int(self.sources([index])[0])
        sample = self._datasets[source][index - int(self._ends[source] - self._lengths[source])]
        return {**sample, self._key: source} if self._key is not None and isinstance(sample, Mapping) else sample

    def sources(self, indices: Iterable[int]) -> Counts:
        """Return the number of the dataset of each index."""
        return np.searchsorted(self._ends, np.asarray(list(indices), np.int64), "right")

    def count(self, indices: Iterable[int]) -> dict[str, int]:
        """Return how many of the indices belong to each dataset."""
        counts = np.bincount(self.sources(indices), minlength=len(self.names)).tolist()
        return dict(zip(self.names, counts, strict=True))

    def order(self, epoch: int) -> npt.NDArray[np.int64]:
        """Return the indices of an epoch."""
        sources, before = self._draw(epoch), self._before(epoch)
        order = np.empty(len(sources), np.int64)
        for source, (length, end) in enumerate(zip(self._lengths.tolist(), self._ends.tolist(), strict=True)):
            places = np.flatnonzero(sources == source)
            turns, positions = np.divmod(before[source] + np.arange(len(places)), length)
            for turn in np.unique(turns).tolist():
                among = turns == turn
                drawn = permutation(length, self._seed, _PASSES + source, BatchKey(turn))
                order[places[among]] = drawn[positions[among]] + end - length
        return order

    def _draw(self, epoch: int) -> Counts:
        """Return the dataset of each sample of an epoch."""
        numbers = RandomState(self._seed, _DRAWS, BatchKey(epoch)).numbers.uniform(self._samples)
        first = epoch * self._samples
        sources = np.empty(self._samples, np.int64)
        for begin in range(0, self._samples, _BLOCK):
            limits = np.cumsum(self._shares(first + begin))
            block = numbers[begin : begin + _BLOCK] * limits[-1]
            sources[begin : begin + _BLOCK] = np.searchsorted(limits, block, "right")
        return sources

    def _before(self, epoch: int) -> Counts:
        known = max(each for each in self._drawn if each <= epoch)
        for each in range(known, epoch):
            drawn = np.bincount(self._draw(each), minlength=len(self.names))
            self._drawn[each + 1] = self._drawn[each] + drawn
        return self._drawn[epoch]

    def _shares(self, draws: int) -> npt.NDArray[np.float64]:
        given = self._weights(draws) if callable(self._weights) else self._weights
        weights = np.array([given.get(name, np.nan) for name in self.names], np.float64)
        if len(given) != len(self.names) or not (weights >= 0).all() or not 0 < weights.sum() < np.inf:
            raise ArgumentValueError(
                f"the weights must be a number for each of {', '.join(self.names)}, not negative and not all 0: "
                f"{dict(given)}"
            )
        return weights


class SourceCounts:
    """Counts the samples and tokens of each dataset of a `Mixture` that a model has seen.

    Args:
        mixture: the mixture.

    Example:
        >>> counts = SourceCounts(Mixture({"a": [1], "b": [2]}, {"a": 1, "b": 1}))
        >>> counts.add([0, 1, 1], [10, 20, 30])
        >>> counts.tokens
        {'a': 10, 'b': 50}
    """

    def __init__(self, mixture: Mixture) -> None:
        self._names = mixture.names
        self.samples = dict.fromkeys(self._names, 0)
        self.tokens = dict.fromkeys(self._names, 0)

    def add(self, sources: Sequence[int], lengths: Sequence[int]) -> None:
        """Count a batch: ``add(batch["source"], batch["cu_seqlens"].diff())``."""
        for source, length in zip(sources, lengths, strict=True):
            name = self._names[int(source)]
            self.samples[name] += 1
            self.tokens[name] += int(length)

    def state_dict(self) -> dict[str, dict[str, int]]:
        """Return the counts."""
        return {"samples": dict(self.samples), "tokens": dict(self.tokens)}

    def load_state_dict(self, state: Mapping[str, Mapping[str, int]]) -> None:
        """Continue from counts that `state_dict` returned."""
        self.samples = {name: int(state["samples"].get(name, 0)) for name in self._names}
        self.tokens = {name: int(state["tokens"].get(name, 0)) for name in self._names}
