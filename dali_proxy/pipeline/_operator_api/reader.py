"""Base class of readers: operators that read data sets, and report their size and position."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import asdict, dataclass

from dali_proxy.pipeline._operator_api.batch_reads import SamplesInFlight
from dali_proxy.pipeline._operator_api.operator import BatchOperator
from dali_proxy.pipeline._operator_api.traits import Traits


@dataclass(frozen=True)
class ReaderMeta:
    """The size of a data set, and the shard that a reader reads.

    Attributes:
        epoch_size: number of samples in the data set.
        number_of_shards: number of shards of the data set.
        shard_id: first shard of this reader.
        pad_last_batch: whether samples are repeated to fill the last batch, and shards that are one sample short.
        stick_to_shard: whether the reader reads the same shard in every epoch.
    """

    epoch_size: int
    number_of_shards: int = 1
    shard_id: int = 0
    pad_last_batch: bool = False
    stick_to_shard: bool = False

    @property
    def epoch_size_padded(self) -> int:
        """Number of samples of all shards in an epoch. With padding, all shards have the same size."""
        if not self.pad_last_batch:
            return self.epoch_size
        return -(-self.epoch_size // self.number_of_shards) * self.number_of_shards

    def as_dict(self) -> dict[str, int]:
        """Return the six entries of `Pipeline.reader_meta`; the last two are 0 or 1."""
        fields = {name: int(value) for name, value in asdict(self).items()}
        return {"epoch_size": self.epoch_size, "epoch_size_padded": self.epoch_size_padded, **fields}


@dataclass(frozen=True)
class ReaderPosition:
    """The position of a reader in its data set.

    Attributes:
        epoch: number of completed passes over a shard.
        offset: number of samples that this pass has returned.
        entries: number of entries of the data set, to detect another data set; 0 before the reader has listed them.
        num_shards: number of shards, to detect another one; 0 if it is unknown.
    """

    epoch: int = 0
    offset: int = 0
    entries: int = 0
    num_shards: int = 0


class ReaderOperator(BatchOperator):
    """An operator without inputs that reads a data set.

    The executor calls `begin` for each batch, in order. `run` computes the outputs from the result of `begin`, which is
    in ``batch.reads``, for batches in any order. So the order of reading doesn't depend on the order of execution. One
    thread at a time uses `begin`, `skip`, `position` and `restore`.
    """

    traits = Traits(waits=True)

    @property
    @abstractmethod
    def meta(self) -> ReaderMeta:
        """The size of the data set. The reader lists its entries when it is created, or when they are first needed."""

    @abstractmethod
    def begin(self, batch_size: int) -> SamplesInFlight:
        """Start to read the next batch."""

    @abstractmethod
    def skip(self, batch_size: int) -> None:
        """Skip a batch that will not run."""

    @property
    @abstractmethod
    def position(self) -> ReaderPosition:
        """The position at which the next batch begins."""

    @abstractmethod
    def restore(self, position: ReaderPosition) -> None:
        """Resume at a position.

        Raises:
            SerializationError: the position belongs to a different data set.
        """
