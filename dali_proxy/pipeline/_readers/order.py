"""The order of the entries of an epoch: a function of the seeds and the epoch number alone.

A reader can therefore resume in the middle of an epoch without replaying it, and the batch size and number of threads
don't affect the order. Only raw Philox bits are used, which are the same in all versions of NumPy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._readers.sharding import Offsets, Sharding
from dali_proxy.pipeline._rng import BatchKey, RandomState

Entries = npt.NDArray[np.int64]

_RECENT = 2  # orders to keep: a batch may contain samples of two epochs


class Order(ABC):
    """The order of a reader's epochs."""

    def __init__(self, sharding: Sharding) -> None:
        self._sharding = sharding

    @abstractmethod
    def entries(self, epoch: int, offsets: Offsets) -> Entries:
        """Return the entries at the given positions of an epoch."""


class Sequential(Order):
    """The order in which the entries were listed."""

    def entries(self, epoch: int, offsets: Offsets) -> Entries:
        return self._sharding.bounds(epoch)[0] + offsets


class _Drawn(Order):
    """An order that is drawn for a whole epoch and cached while it is used."""

    def __init__(self, sharding: Sharding) -> None:
        super().__init__(sharding)
        self._recent: dict[int, Entries] = {}

    @abstractmethod
    def draw(self, epoch: int) -> Entries:
        """Return all entries of an epoch in order."""

    def entries(self, epoch: int, offsets: Offsets) -> Entries:
        drawn = self._recent.get(epoch)
        if drawn is None:
            drawn = self._recent[epoch] = self.draw(epoch)
            while len(self._recent) > _RECENT:
                del self._recent[min(self._recent)]
        return drawn[offsets]


class BufferShuffled(_Drawn):
    """``random_shuffle``: the order of samples drawn at random from a buffer that is filled in order.

    Args:
        sharding: division of the entries among epochs.
        buffer: size of the buffer, in entries.
        seed: seed of the draws.
        stream: number that distinguishes operators with the same seed.
        mixed: whether to shuffle all entries of the dataset first. That order is the same in every run, so that
            shards never overlap.
    """

    def __init__(self, sharding: Sharding, buffer: int, seed: int, stream: int = 0, mixed: bool = False) -> None:
        super().__init__(sharding)
        self._buffer = buffer
        self._seed = seed
        self._stream = stream
        self._mixed = permutation(sharding.entries, 0, 0, BatchKey(view=1)) if mixed else None

    def draw(self, epoch: int) -> Entries:
        first, end = self._sharding.bounds(epoch)
        drawn = first + shuffle_by_buffer(end - first, self._buffer, self._seed, self._stream, BatchKey(epoch))
        return drawn if self._mixed is None else self._mixed[drawn]


class EpochShuffled(_Drawn):
    """``shuffle_after_epoch``: the whole dataset is shuffled for each epoch and then divided into shards."""

    def __init__(self, sharding: Sharding, seed: int) -> None:
        super().__init__(sharding)
        self._seed = seed

    def draw(self, epoch: int) -> Entries:
        first, end = self._sharding.bounds(epoch)
        shard: Entries = permutation(self._sharding.entries, self._seed, 0, BatchKey(epoch))[first:end].copy()
        return shard


class FilesShuffled(_Drawn):
    """``shuffle_after_epoch`` of large files: the files are shuffled for each epoch; their entries stay in order.

    Args:
        sharding: division of the positions in that order among epochs.
        sizes: number of entries of each file.
        files_seed: seed of the order of files; the same for all shards.
        buffer: size of the buffer of ``random_shuffle``, from which samples are then drawn; 1 to keep the order.
        seed: seed of the draws.
        stream: number that distinguishes operators with the same seed.
    """

    def __init__(
        self, sharding: Sharding, sizes: Sequence[int], files_seed: int, buffer: int, seed: int, stream: int = 0
    ) -> None:
        super().__init__(sharding)
        self._sizes = np.array(sizes, np.int64)
        self._files_seed = files_seed
        self._buffer = buffer
        self._seed = seed
        self._stream = stream

    def draw(self, epoch: int) -> Entries:
        first, end = self._sharding.bounds(epoch)
        starts = np.cumsum(self._sizes) - self._sizes
        files = permutation(len(starts), self._files_seed, 0, BatchKey(epoch)).tolist()
        shard: Entries = np.concatenate([starts[file] + np.arange(self._sizes[file]) for file in files])[first:end]
        return shard[shuffle_by_buffer(len(shard), self._buffer, self._seed, self._stream, BatchKey(epoch))]


def permutation(count: int, seed: int, stream: int, key: BatchKey) -> Entries:
    """Return the numbers below `count` in random order.

    Example:
        >>> sorted(permutation(5, 1, 0, BatchKey()).tolist())
        [0, 1, 2, 3, 4]
    """
    drawn: Entries = np.argsort(_bits(count, seed, stream, key), kind="stable")
    return drawn


def shuffle_by_buffer(count: int, buffer: int, seed: int, stream: int, key: BatchKey) -> Entries:
    """Return the numbers below `count` in the order of random draws from a buffer that is filled in order.

    The number at position p is less than ``p + buffer``.

    Example:
        >>> shuffle_by_buffer(4, 1, 0, 0, BatchKey()).tolist()
        [0, 1, 2, 3]
    """
    if buffer >= count:
        return permutation(count, seed, stream, key)
    # Positions of the draws in the buffer, which empties towards the end.
    filled = np.minimum(buffer, count - np.arange(count)).astype(np.uint64)
    draws = (_bits(count, seed, stream, key) % filled).tolist()
    buffered = list(range(buffer))
    order = np.empty(count, np.int64)
    for position, draw in enumerate(draws):
        order[position] = buffered[draw]
        following = position + buffer
        if following < count:
            buffered[draw] = following
        else:
            last = buffered.pop()
            if draw < len(buffered):
                buffered[draw] = last
    return order


def _bits(count: int, seed: int, stream: int, key: BatchKey) -> npt.NDArray[np.uint64]:
    raw = RandomState(seed, stream, key).numbers.words(count)
    return np.asarray(raw, np.uint64)
