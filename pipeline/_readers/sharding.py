"""Which part of a data set a reader reads, and which samples each of its batches has: arithmetic alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.errors import ArgumentValueError

__all__ = ["Cursor", "Offsets", "Sharding"]

Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, order=True)
class Cursor:
    """Where a reader is.

    Attributes:
        epoch: passes over a shard that were finished.
        offset: samples of this pass that were given, those that pad it included.
    """

    epoch: int = 0
    offset: int = 0


@dataclass(frozen=True)
class Sharding:
    """How a data set is divided among readers.

    Shard s of n entries has those from ``n * s // num_shards`` up to ``n * (s + 1) // num_shards``: all entries
    are in one shard, and sizes differ by one at most. An epoch is a pass over one shard; the next epoch is the next
    shard, so that in each epoch the readers of all shards read everything once.

    Attributes:
        entries: of the data set.
        shard_id: the shard of the first epoch.
        num_shards: how many there are.
        stick_to_shard: every epoch reads the same shard.
        pad_last_batch: an epoch begins with a batch, and in all shards it has the same number of batches: the last
            sample of a shard is repeated. Otherwise batches go on over the end of an epoch into the next one.

    Raises:
        ArgumentValueError: there is no such shard, or there are more shards than entries.

    Example:
        >>> sharding = Sharding(entries=10, shard_id=2, num_shards=3)
        >>> sharding.bounds(0), sharding.bounds(1)
        ((6, 10), (0, 3))
    """

    entries: int
    shard_id: int = 0
    num_shards: int = 1
    stick_to_shard: bool = False
    pad_last_batch: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.shard_id < self.num_shards:
            raise ArgumentValueError(
                f"shard_id must be 0 or more and less than num_shards; they are {self.shard_id} and {self.num_shards}"
            )
        if self.entries < self.num_shards:
            raise ArgumentValueError(f"{self.entries} entries can't be divided into {self.num_shards} shards")

    def bounds(self, epoch: int) -> tuple[int, int]:
        """Return the first entry that an epoch reads, and the one after its last."""
        shard = self.shard_id if self.stick_to_shard else (self.shard_id + epoch) % self.num_shards
        return self.entries * shard // self.num_shards, self.entries * (shard + 1) // self.num_shards

    def size(self, epoch: int) -> int:
        """Return how many entries an epoch reads."""
        first, end = self.bounds(epoch)
        return end - first

    def take(self, cursor: Cursor, count: int) -> tuple[list[tuple[int, Offsets]], Cursor]:
        """Return the samples of the next batch.

        Args:
            cursor: where the batch begins.
            count: samples of the batch.

        Returns:
            The epochs that it has samples of, each with the samples' positions in it; and where the next one begins.

        Example:
            >>> parts, cursor = Sharding(entries=3).take(Cursor(0, 2), 4)
            >>> [(epoch, offsets.tolist()) for epoch, offsets in parts], cursor
            ([(0, [2]), (1, [0, 1, 2])], Cursor(epoch=1, offset=3))
        """
        if self.pad_last_batch:
            return self._take_padded(cursor, count)
        parts = []
        while count:
            left = self.size(cursor.epoch) - cursor.offset
            if left <= 0:
                cursor = Cursor(cursor.epoch + 1)
                continue
            taken = min(left, count)
            parts.append((cursor.epoch, np.arange(cursor.offset, cursor.offset + taken)))
            cursor = Cursor(cursor.epoch, cursor.offset + taken)
            count -= taken
        return parts, cursor

    def _take_padded(self, cursor: Cursor, count: int) -> tuple[list[tuple[int, Offsets]], Cursor]:
        largest = -(-self.entries // self.num_shards)
        if cursor.offset >= largest:
            cursor = Cursor(cursor.epoch + 1)
        offsets = np.arange(cursor.offset, cursor.offset + count)
        padded = np.minimum(offsets, self.size(cursor.epoch) - 1)
        return [(cursor.epoch, padded)], Cursor(cursor.epoch, cursor.offset + count)
