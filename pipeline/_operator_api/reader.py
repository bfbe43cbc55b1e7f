"""What operators that read data sets have in common: they tell how much data there is, and which part they read."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

from pipeline._graph.graph import Edge
from pipeline._operator_api.operator import BatchOperator

__all__ = ["BatchReads", "Reader", "ReaderMeta", "ReaderPosition", "SamplesInFlight"]


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


@dataclass(frozen=True)
class ReaderPosition:
    """Before which sample a reader is.

    Attributes:
        epoch: passes over a shard that were finished.
        offset: samples of this pass that were given.
        entries: of the data set, to notice that it is another one; 0 before the reader has looked.
    """

    epoch: int = 0
    offset: int = 0
    entries: int = 0


class SamplesInFlight(Protocol):
    """A batch that a reader has begun to read."""

    @property
    def sources(self) -> Sequence[str]:
        """Where the samples lie in the data set, as users know it."""


@dataclass(frozen=True)
class BatchReads:
    """What readers have begun to read for one batch.

    Attributes:
        by_reader: by the index of the reader's node.
        origins: for outputs of operators, the reader that their samples come from.
    """

    by_reader: Mapping[int, SamplesInFlight]
    origins: Mapping[Edge, int]

    def source_info(self, edge: Edge, sample: int) -> str:
        """Return where a sample of a batch lies in its data set; an empty string if it comes from no reader."""
        reader = self.origins.get(edge)
        return "" if reader is None else self.by_reader[reader].sources[sample]

    def sources(self, edge: Edge) -> Sequence[str]:
        """Return where all samples lie; an empty sequence if they come from no reader."""
        reader = self.origins.get(edge)
        return () if reader is None else self.by_reader[reader].sources


class Reader(BatchOperator):
    """An operator without inputs that reads a data set.

    `begin` is called for each batch, in order; `run` then makes the outputs of what `begin` returned, which is in
    ``batch.reads``, whichever batch comes first. So the order of reading doesn't depend on that of execution.
    `begin`, `skip`, `position` and `restore` are called by one thread at a time.
    """

    @property
    @abstractmethod
    def meta(self) -> ReaderMeta:
        """How much data there is; it is looked for when the operator is made, or by the first that needs it."""

    @abstractmethod
    def begin(self, batch_size: int) -> SamplesInFlight:
        """Begin to read the next batch."""

    @abstractmethod
    def skip(self, batch_size: int) -> None:
        """Go on by a batch that will not run."""

    @property
    @abstractmethod
    def position(self) -> ReaderPosition:
        """Where the next batch begins."""

    @abstractmethod
    def restore(self, position: ReaderPosition) -> None:
        """Go on from a position.

        Raises:
            SerializationError: the data set isn't the one that the position is of.
        """
