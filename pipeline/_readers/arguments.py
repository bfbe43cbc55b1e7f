"""The arguments that all readers have, and those that some share."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from pipeline._declaration.schema import Argument, Kind
from pipeline._graph.graph import GraphNode
from pipeline.errors import ArgumentValueError

__all__ = ["EPOCH_SHUFFLE_ARGUMENTS", "READER_ARGUMENTS", "ReaderArguments"]

#: Arguments of every reader.
READER_ARGUMENTS: tuple[Argument, ...] = (
    Argument("shard_id", Kind.INT, "The part of the dataset that the first epoch reads.", 0),
    Argument("num_shards", Kind.INT, "Parts that the dataset is divided into: one for each GPU, or process.", 1),
    Argument(
        "stick_to_shard",
        Kind.BOOL,
        "Read the same shard in every epoch, rather than the next one in the next epoch.",
        False,
    ),
    Argument(
        "pad_last_batch",
        Kind.BOOL,
        "Fill the last batch of an epoch with repetitions of its last sample, rather than with samples of the next "
        "epoch. Shards of unequal size then have equal numbers of batches, so that one may end with a batch of "
        "repetitions alone.",
        False,
    ),
    Argument(
        "random_shuffle",
        Kind.BOOL,
        "Draw samples at random from a buffer that is filled in turn. Where any entry is read as fast as the next "
        "one, all entries are mixed beforehand, the same way in every run and shard.",
        False,
    ),
    Argument("initial_fill", Kind.INT, "Entries that the buffer of `random_shuffle` holds. None is read for it.", 1024),
    Argument("prefetch_queue_depth", Kind.INT, "Batches to read ahead of those that the pipeline works on.", 1),
    Argument("lazy_init", Kind.BOOL, "List the dataset when the first batch starts, not when building.", False),
    Argument("skip_cached_images", Kind.BOOL, "Accepted for compatibility; no decoder keeps images.", False),
    Argument("tensor_init_bytes", Kind.INT, "Accepted for compatibility; buffers size themselves.", 1048576),
    Argument("read_ahead", Kind.BOOL, "Accepted for compatibility; entries are read whole.", False),
    Argument("dont_use_mmap", Kind.BOOL, "Accepted for compatibility; files are always read.", False),
)

#: Arguments of readers that may put the whole data set into a new order for each epoch.
EPOCH_SHUFFLE_ARGUMENTS: tuple[Argument, ...] = (
    Argument(
        "shuffle_after_epoch",
        Kind.BOOL,
        "Put the whole dataset into a new order for each epoch, of which each shard has its part. Not together with "
        "`random_shuffle` and `stick_to_shard`.",
        False,
    ),
    Argument(
        "shuffle_after_epoch_seed",
        Kind.INT,
        "Seed of these orders. All shards need the same; by default each run has the same orders.",
        0,
    ),
)


@dataclass(frozen=True)
class ReaderArguments:
    """The arguments of one reader that all readers have, checked.

    Raises:
        ArgumentValueError: for values that can't be used, or don't go together.
    """

    shard_id: int
    num_shards: int
    stick_to_shard: bool
    pad_last_batch: bool
    random_shuffle: bool
    initial_fill: int
    prefetch_queue_depth: int
    lazy_init: bool
    shuffle_after_epoch: bool
    shuffle_after_epoch_seed: int

    @classmethod
    def of(cls, node: GraphNode) -> ReaderArguments:
        """Return those of a node; arguments that its reader doesn't have count as not given."""
        values: dict[str, Any] = {each.name: node.argument(each.name) or 0 for each in fields(cls)}
        return cls(**values)

    def __post_init__(self) -> None:
        for name in ("num_shards", "prefetch_queue_depth", "initial_fill"):
            if getattr(self, name) < 1:
                raise ArgumentValueError(f"argument {name!r} must be 1 or more, not {getattr(self, name)}")
        if not 0 <= self.shard_id < self.num_shards:
            raise ArgumentValueError(
                f"argument 'shard_id' must be 0 or more and less than num_shards={self.num_shards}, not {self.shard_id}"
            )
        if self.shuffle_after_epoch:
            for name in ("random_shuffle", "stick_to_shard"):
                if getattr(self, name):
                    raise ArgumentValueError(f"arguments 'shuffle_after_epoch' and {name!r} exclude each other")
