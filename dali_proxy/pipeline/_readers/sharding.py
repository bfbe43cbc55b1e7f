"""Computes the shard of a dataset that a reader reads, and the samples of each of its batches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline.errors import ArgumentValueError

Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, order=True)
class Cursor:
    """The position of a reader.

    Attributes:
        epoch: number of finished passes over a shard.
        offset: number of samples of the current pass that were returned, including padding.
    """

    epoch: int = 0
    offset: int = 0


@dataclass(frozen=True)
class Sharding:
    """The division of a dataset among readers.

    Shard s of n entries contains the entries from ``n * s // num_shards`` up to ``n * (s + 1) // num_shards``. Each
    entry is in exactly one shard, and the sizes of shards differ by at most one. An epoch is a pass over one shard,
    and the next epoch reads the next shard. In each epoch, the readers of all shards together read everything once.

    Attributes:
        entries: number of entries in the dataset.
        shard_id: shard of the first epoch.
        num_shards: number of shards.
        stick_to_shard: whether every epoch reads the same shard.
        pad_last_batch: whether each epoch begins with a new batch and has the same number of batches in all shards,
            by repeating the last sample of a shard. Otherwise a batch at the end of an epoch continues with samples
            of the next one.

    Raises:
        ArgumentValueError: the shard doesn't exist, or there are more shards than entries.

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
            raise ArgumentValueError(
                f"The number of input samples: {self.entries}, needs to be at least equal to the requested number of "
                "shards: "
                f"{self.num_shards}."
            )

    def bounds(self, epoch: int) -> tuple[int, int]:
        """Return the first entry of an epoch, and the end of its range."""
        shard = self.shard_id if self.stick_to_shard else (self.shard_id + epoch) % self.num_shards
        return self.entries * shard // self.num_shards, self.entries * (shard + 1) // self.num_shards

    def size(self, epoch: int) -> int:
        """Return the number of entries of an epoch."""
        first, end = self.bounds(epoch)
        return end - first

    def take(self, cursor: Cursor, count: int) -> tuple[list[tuple[int, Offsets]], Cursor]:
        """Return the samples of the next batch.

        Returns:
            The epochs of the batch, each with the positions of its samples; and the cursor of the next batch.

        Example:
            >>> segments, cursor = Sharding(entries=3).take(Cursor(0, 2), 4)
            >>> [(epoch, offsets.tolist()) for epoch, offsets in segments], cursor
            ([(0, [2]), (1, [0, 1, 2])], Cursor(epoch=1, offset=3))
        """
        if self.pad_last_batch:
            return self._take_padded(cursor, count)
        segments = []
        while count:
            left = self.size(cursor.epoch) - cursor.offset
            if left <= 0:
                cursor = Cursor(cursor.epoch + 1)
                continue
            length = min(left, count)
            segments.append((cursor.epoch, np.arange(cursor.offset, cursor.offset + length)))
            cursor = Cursor(cursor.epoch, cursor.offset + length)
            count -= length
        return segments, cursor

    def _take_padded(self, cursor: Cursor, count: int) -> tuple[list[tuple[int, Offsets]], Cursor]:
        largest = -(-self.entries // self.num_shards)
        if cursor.offset >= largest:
            cursor = Cursor(cursor.epoch + 1)
        offsets = np.arange(cursor.offset, cursor.offset + count)
        padded = np.minimum(offsets, self.size(cursor.epoch) - 1)
        return [(cursor.epoch, padded)], Cursor(cursor.epoch, cursor.offset + count)
