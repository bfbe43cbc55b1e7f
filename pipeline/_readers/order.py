"""In which order an epoch gives the entries of its shard: a function of seeds and of the epoch's number alone.

So nothing is replayed to go on in the middle of a run, and the order is that of the seed, whatever the batch size and
however many threads read. Only raw Philox bits are used, which NumPy keeps the same in all versions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from pipeline._readers.sharding import Offsets, Sharding
from pipeline._rng import BatchKey, batch_generator

__all__ = ["BufferShuffled", "Entries", "EpochShuffled", "Order", "Sequential", "permutation", "shuffle_by_buffer"]

Entries = npt.NDArray[np.int64]

_RECENT = 2  # orders to keep: a batch may have samples of two epochs


class Order(ABC):
    """The order of a reader's epochs.

    Args:
        sharding: which entries each epoch has.
    """

    def __init__(self, sharding: Sharding) -> None:
        self._sharding = sharding

    @abstractmethod
    def entries(self, epoch: int, offsets: Offsets) -> Entries:
        """Return the entries at positions of an epoch."""


class Sequential(Order):
    """As the entries were listed."""

    def entries(self, epoch: int, offsets: Offsets) -> Entries:
        return self._sharding.bounds(epoch)[0] + offsets


class _Drawn(Order):
    """An order that is drawn for an epoch as a whole, and kept while it is used."""

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
    """``random_shuffle``: as if a buffer were filled with entries in turn, and samples were drawn from it.

    Args:
        sharding: which entries each epoch has.
        buffer: entries that the buffer holds.
        seed: of the draws.
        stream: tells operators with the same seed apart.
        mixed: whether all entries of the data set are put into one random order first. It is the same in each run,
            so that shards never overlap.
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
    """``shuffle_after_epoch``: each epoch begins with a new order of the whole data set, of which shards are cut.

    Args:
        sharding: which positions of that order each epoch has.
        seed: of the orders; the same for all shards.
    """

    def __init__(self, sharding: Sharding, seed: int) -> None:
        super().__init__(sharding)
        self._seed = seed

    def draw(self, epoch: int) -> Entries:
        first, end = self._sharding.bounds(epoch)
        own: Entries = permutation(self._sharding.entries, self._seed, 0, BatchKey(epoch))[first:end].copy()
        return own


def permutation(count: int, seed: int, stream: int, key: BatchKey) -> Entries:
    """Return the numbers below `count` in random order.

    Example:
        >>> sorted(permutation(5, 1, 0, BatchKey()).tolist())
        [0, 1, 2, 3, 4]
    """
    drawn: Entries = np.argsort(_bits(count, seed, stream, key), kind="stable")
    return drawn


def shuffle_by_buffer(count: int, buffer: int, seed: int, stream: int, key: BatchKey) -> Entries:
    """Return the numbers below `count` as they leave a buffer that is filled in turn and drawn from at random.

    The number at position p is less than ``p + buffer``.

    Example:
        >>> shuffle_by_buffer(4, 1, 0, 0, BatchKey()).tolist()
        [0, 1, 2, 3]
    """
    if buffer >= count:
        return permutation(count, seed, stream, key)
    # Where the draw falls in the buffer; at the end there is less and less in it.
    filled = np.minimum(buffer, count - np.arange(count)).astype(np.uint64)
    draws = (_bits(count, seed, stream, key) % filled).tolist()
    held = list(range(buffer))
    made = np.empty(count, np.int64)
    for position, draw in enumerate(draws):
        made[position] = held[draw]
        following = position + buffer
        if following < count:
            held[draw] = following
        else:
            last = held.pop()
            if draw < len(held):
                held[draw] = last
    return made


def _bits(count: int, seed: int, stream: int, key: BatchKey) -> npt.NDArray[np.uint64]:
    raw = batch_generator(seed, stream, key).bit_generator.random_raw(count)
    return np.asarray(raw, np.uint64)
