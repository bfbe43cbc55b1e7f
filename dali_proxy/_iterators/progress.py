"""Progress of an iterator in its epoch: the samples of the pipelines' next batches that belong to the epoch.

A pipeline never ends: after one epoch, it reads the next one. With padding, a reader repeats the last sample until the
batch is full, and each epoch begins with a new batch. Without padding, the last batch of an epoch also has samples of
the next one. This module counts the samples that each shard has returned. An epoch is over when all shards, including
those of other processes, have returned all of their samples.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from dali_proxy._common.policies import LastBatchPolicy, batch_count
from dali_proxy.pipeline._readers.sharding import Sharding
from dali_proxy.pipeline.errors import ArgumentValueError


class Source(ABC):
    """The data that the pipelines of an iterator read together."""

    #: Whether a batch omits a pipeline without samples; otherwise that pipeline returns an empty batch.
    omits_empty: bool

    @abstractmethod
    def sizes(self, epoch: int) -> list[int]:
        """Return the number of samples of each shard in an epoch."""

    @abstractmethod
    def step(self, batch_size: int) -> int:
        """Return the number of samples that a shard returns when each pipeline runs one batch."""

    @abstractmethod
    def size(self, policy: LastBatchPolicy, padded: bool, batch_size: int) -> int:
        """Return the value of `_size`, which doesn't depend on the epoch."""

    @abstractmethod
    def split(self, left: Sequence[int], batch_size: int) -> tuple[int, ...]:
        """Return how many samples of each pipeline's next batch belong to an epoch with `left` samples per shard."""


@dataclass(frozen=True)
class Flat(Source):
    """A number of samples that the pipelines return in turns, one batch each: the meaning of ``size=``."""

    samples: int
    pipelines: int
    omits_empty = True

    def sizes(self, epoch: int) -> list[int]:
        return [self.samples]

    def step(self, batch_size: int) -> int:
        return batch_size * self.pipelines

    def size(self, policy: LastBatchPolicy, padded: bool, batch_size: int) -> int:
        return self.samples

    def split(self, left: Sequence[int], batch_size: int) -> tuple[int, ...]:
        return tuple(_within(left[0] - turn * batch_size, batch_size) for turn in range(self.pipelines))


@dataclass(frozen=True)
class Sharded(Source):
    """The shards of a reader's data set: the meaning of ``reader_name=``.

    Attributes:
        samples: number of samples of the data set.
        shards: number of shards.
        first: shard that each pipeline reads in the first epoch.
        stick: whether a pipeline stays with its shard; otherwise it takes the next one in each epoch.
    """

    samples: int
    shards: int
    first: tuple[int, ...]
    stick: bool
    omits_empty = False

    def sizes(self, epoch: int) -> list[int]:
        """Return the sizes, in the order of the shards of the first epoch."""
        return [
            Sharding(self.samples, shard, self.shards, stick_to_shard=self.stick).size(epoch)
            for shard in range(self.shards)
        ]

    def step(self, batch_size: int) -> int:
        return batch_size

    def size(self, policy: LastBatchPolicy, padded: bool, batch_size: int) -> int:
        if policy is LastBatchPolicy.DROP:
            return self.samples // self.shards
        largest = -(-self.samples // self.shards)
        return largest if padded else -(-largest // batch_size) * batch_size

    def split(self, left: Sequence[int], batch_size: int) -> tuple[int, ...]:
        return tuple(_within(left[shard], batch_size) for shard in self.first)


@dataclass(frozen=True)
class Share:
    """The share of the pipelines' next batches that belongs to the epoch.

    Attributes:
        samples: number of samples of each pipeline; None for a pipeline that the batch omits.
        dropped: whether the whole batch is run but dropped.
    """

    samples: tuple[int | None, ...]
    dropped: bool


class Progress:
    """Counts the batches of epoch after epoch.

    Args:
        source: data that the pipelines read.
        policy: treatment of the last batch.
        padded: whether pipelines pad the last batch of an epoch; otherwise it continues with the next epoch.
        batch_size: batch size of each pipeline.

    Attributes:
        epoch: number of the current epoch.
        batch: number of the next batch within it, including dropped batches.

    Example:
        >>> progress = Progress(Flat(7, pipelines=1), LastBatchPolicy.PARTIAL, padded=True, batch_size=2)
        >>> progress.seek(epoch=0, batch=3)
        >>> progress.share
        Share(samples=(1,), dropped=False)
    """

    def __init__(self, source: Source, policy: LastBatchPolicy, padded: bool, batch_size: int) -> None:
        self._source = source
        self._policy = policy
        self._padded = padded
        self._batch_size = batch_size
        self._step = source.step(batch_size)
        #: Whether the samples that fill an epoch's last batch are missing in the next one.
        self._carries = policy is LastBatchPolicy.FILL and not padded
        self.epoch = 0
        self.batch = 0
        self._begin(0, [0] * len(source.sizes(0)))
        if not len(self):
            raise ArgumentValueError(
                f"an epoch has no batch: {self.size} samples don't fill a batch of {self._step}, and "
                f"LastBatchPolicy.DROP drops batches that aren't full"
            )

    @property
    def size(self) -> int:
        """Number of samples in an epoch, by the rules of DALI's iterators: of a shard if there are shards."""
        return self._source.size(self._policy, self._padded, self._batch_size)

    def __len__(self) -> int:
        """Return the number of batches that the current epoch returns."""
        return self._given

    @property
    def share(self) -> Share | None:
        """The share of the next batch that belongs to the epoch; None at the end of the epoch."""
        if self.batch >= self._run:
            return None
        left = [self._step] * len(self._sizes)
        if self._policy is LastBatchPolicy.PARTIAL:
            left = [size - self.batch * self._step for size in self._sizes]
        samples: list[int | None] = list(self._source.split(left, self._batch_size))
        if self._source.omits_empty:
            samples = [count or None for count in samples]
        return Share(tuple(samples), dropped=self.batch >= self._given)

    def advance(self) -> None:
        """Count one more batch."""
        self.batch += 1

    def next_epoch(self) -> None:
        """Begin the next epoch."""
        before = self._before
        if self._carries:
            yielded = self._run * self._step
            before = [count + yielded - size for count, size in zip(before, self._sizes, strict=True)]
        self.epoch += 1
        self.batch = 0
        self._begin(self.epoch, before)

    def seek(self, epoch: int, batch: int) -> None:
        """Continue at a batch of an epoch, as if all earlier batches had been counted."""
        while self.epoch < epoch:
            self.next_epoch()
        self.batch = min(batch, self._run)

    def _begin(self, epoch: int, before: list[int]) -> None:
        """Start an epoch, of which the shards have already returned `before` samples."""
        self._sizes = self._source.sizes(epoch)
        self._before = before
        if self._policy is LastBatchPolicy.DROP:
            fewest = min(self._sizes)
            self._given = batch_count(fewest, self._step, self._policy)
            # A padded epoch must be read to its end, which other shards may reach later.
            self._run = -(-(max(self._sizes) if self._padded else fewest) // self._step)
            return
        left = max(size - count for size, count in zip(self._sizes, before, strict=True))
        self._given = self._run = max(1, batch_count(left, self._step, self._policy))


def _within(value: int, limit: int) -> int:
    return max(0, min(value, limit))
