"""What operators that read data sets have in common: they tell how much data there is, and which part they read."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import asdict, dataclass

from pipeline.operators.base import BatchOperator

__all__ = ["Reader", "ReaderMeta"]


@dataclass(frozen=True)
class ReaderMeta:
    """How much data a reader has, and which part of it the reader reads.

    Attributes:
        epoch_size: samples in the data set.
        number_of_shards: parts that the data set is divided into.
        shard_id: which of them this reader begins with.
        pad_last_batch: whether the last batch, and shards that are one sample short, are filled up by repetition.
        stick_to_shard: whether the reader reads the same shard in every epoch.
    """

    epoch_size: int
    number_of_shards: int = 1
    shard_id: int = 0
    pad_last_batch: bool = False
    stick_to_shard: bool = False

    @property
    def epoch_size_padded(self) -> int:
        """Samples in an epoch of all shards together: with padding, all shards have the same size."""
        if not self.pad_last_batch:
            return self.epoch_size
        return -(-self.epoch_size // self.number_of_shards) * self.number_of_shards

    def as_dict(self) -> dict[str, int]:
        """Return the six entries of `Pipeline.reader_meta`; the last two are 0 or 1."""
        made = {name: int(value) for name, value in asdict(self).items()}
        return {"epoch_size": self.epoch_size, "epoch_size_padded": self.epoch_size_padded, **made}


class Reader(BatchOperator):
    """An operator without inputs that reads a data set: `Pipeline.reader_meta` asks it for its `meta`."""

    @property
    @abstractmethod
    def meta(self) -> ReaderMeta:
        """How much data there is; known when the operator was made."""
