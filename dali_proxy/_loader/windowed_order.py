"""`WindowedOrder`: random orders in which samples of the same file stay near each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._readers.order import permutation
from dali_proxy.pipeline._rng import BatchKey, RandomState
from dali_proxy.pipeline.errors import ArgumentValueError

_FILES, _MOVES = 4, 5  # streams of random numbers


@dataclass(frozen=True)
class ShuffleRadius:
    """How well an order is shuffled.

    Attributes:
        mean: mean distance of a sample from its place in the order without a window, in samples.
        largest: largest such distance; it is less than the window.
        files: mean number of different files among 64 samples in a row.
    """

    mean: float
    largest: int
    files: float


class WindowedOrder:
    """The order of an epoch: files in random order, and samples that move at random within a window.

    A fully random order over many videos needs each group of pictures again and again, after it has left any memory.
    Here, all samples of a file are drawn near each other, so that a pool of decoded frames (`fn.io.video`) serves them:
    each sample moves less than `window` places from its place in its file, a quarter of that on average. Files that lie
    within the window are mixed.

    Pass it as `order` to `distributed.DistributedBatchSampler` or to `PackedBatchSampler`, which resume with any number
    of ranks and workers. The order is a function of seed and epoch.

    Args:
        lengths: number of samples of each file; the dataset has the samples of the first file first, and so on.
        window: size of the window, in samples. 1 reads each file in order.
        seed: seed of the orders; it must be the same on all ranks.

    Raises:
        ArgumentValueError: a length is negative, the files have no samples, or `window` is less than 1.

    Example:
        >>> order = WindowedOrder([300] * 20, window=1000)
        >>> indices = order(epoch=0)
        >>> len(set(indices.tolist())), order.radius(epoch=0).largest < 1000
        (6000, True)
    """

    def __init__(self, lengths: Sequence[int], window: int = 1000, seed: int = 0) -> None:
        self._lengths = np.asarray(lengths, np.int64).reshape(-1)
        if not self._lengths.sum() or (self._lengths < 0).any():
            raise ArgumentValueError("lengths must be the numbers of samples of at least one file")
        if window < 1:
            raise ArgumentValueError(f"window must be 1 or more, not {window}")
        self._window, self._seed = window, seed

    def __len__(self) -> int:
        return int(self._lengths.sum())

    def __call__(self, epoch: int) -> npt.NDArray[np.int64]:
        """Return the indices of an epoch."""
        indices, places = self._draw(epoch)
        return indices[places]

    def radius(self, epoch: int = 0) -> ShuffleRadius:
        """Measure how well the order of an epoch is shuffled."""
        indices, places = self._draw(epoch)
        moved = np.abs(places - np.arange(len(places)))
        files = np.searchsorted(np.cumsum(self._lengths), indices[places], "right")
        parts = [files[begin : begin + 64] for begin in range(0, len(files), 64)]
        return ShuffleRadius(
            float(moved.mean()), int(moved.max()), float(np.mean([len(np.unique(part)) for part in parts]))
        )

    def _draw(self, epoch: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the indices with files in random order, and the order of their places within the window."""
        key = BatchKey(epoch)
        files = permutation(len(self._lengths), self._seed, _FILES, key)
        lengths = self._lengths[files]
        starts = (np.cumsum(self._lengths) - self._lengths)[files]
        within = np.arange(len(self)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        moves = RandomState(self._seed, _MOVES, key).numbers.uniform(len(self)) * (self._window - 1)
        places = np.argsort(np.arange(len(self)) + moves, kind="stable")
        return np.repeat(starts, lengths) + within, places
