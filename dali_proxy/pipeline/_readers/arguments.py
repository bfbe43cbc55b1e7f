"""Arguments that all readers have, and arguments that several readers share."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import Argument, Kind
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.types import DALIDataType, to_numpy_type

#: Arguments of every reader.
READER_ARGUMENTS: tuple[Argument, ...] = (
    Argument("shard_id", Kind.INT, "Index of the shard that the first epoch reads.", 0),
    Argument(
        "num_shards", Kind.INT, "Number of shards that the dataset is divided into: one for each GPU or process.", 1
    ),
    Argument(
        "stick_to_shard",
        Kind.BOOL,
        "Read the same shard in every epoch, instead of advancing to the next shard.",
        False,
    ),
    Argument(
        "pad_last_batch",
        Kind.BOOL,
        "Fill the last batch of an epoch by repeating its last sample, instead of with samples of the next epoch. "
        "Shards of different sizes then have the same number of batches. The last batch of a smaller shard may "
        "contain only repetitions.",
        False,
    ),
    Argument(
        "random_shuffle",
        Kind.BOOL,
        "Draw samples at random from a buffer that is filled in order. Readers with fast random access also shuffle "
        "all entries first, in the same way in every run and shard.",
        False,
    ),
    Argument(
        "initial_fill",
        Kind.INT,
        "Size of the buffer of `random_shuffle`, in entries. The buffer doesn't read them.",
        1024,
    ),
    Argument("prefetch_queue_depth", Kind.INT, "Number of batches to read ahead of the pipeline.", 1),
    Argument(
        "lazy_init", Kind.BOOL, "List the dataset when the first batch starts, not when the pipeline is built.", False
    ),
    Argument("skip_cached_images", Kind.BOOL, "Accepted for compatibility; decoders don't cache images.", False),
    Argument("tensor_init_bytes", Kind.INT, "Accepted for compatibility; buffers are sized automatically.", 1048576),
    Argument("read_ahead", Kind.BOOL, "Accepted for compatibility; a whole entry is always read.", False),
    Argument("dont_use_mmap", Kind.BOOL, "Accepted for compatibility; files are never mapped.", False),
)

#: Arguments of readers that can shuffle the whole dataset for each epoch.
EPOCH_SHUFFLE_ARGUMENTS: tuple[Argument, ...] = (
    Argument(
        "shuffle_after_epoch",
        Kind.BOOL,
        "Shuffle the whole dataset before each epoch, then divide it into shards. Can't be combined with "
        "`random_shuffle` or `stick_to_shard`.",
        False,
    ),
    Argument(
        "shuffle_after_epoch_seed",
        Kind.INT,
        "Seed of `shuffle_after_epoch`. All shards need the same seed. With the default, the order is the same in "
        "every run.",
        0,
    ),
)

#: Arguments of readers of large files that can shuffle the order of these files for each epoch.
FILE_SHUFFLE_ARGUMENTS: tuple[Argument, ...] = (
    Argument(
        "shuffle_after_epoch",
        Kind.BOOL,
        "Shuffle the order of the files before each epoch, then divide their records into shards. Can be combined "
        "with `random_shuffle`, but not with `stick_to_shard`.",
        False,
    ),
    EPOCH_SHUFFLE_ARGUMENTS[1],
)


@dataclass(frozen=True)
class ReaderArguments:
    """The checked values of the arguments that all readers share.

    Raises:
        ArgumentValueError: a value is invalid, or two values are mutually exclusive.
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
    shuffles_files: bool = False

    @classmethod
    def from_node(cls, node: GraphNode, *, shuffles_files: bool = False) -> ReaderArguments:
        """Read the arguments of a node. Arguments that its reader doesn't have count as not given.

        Args:
            node: the node.
            shuffles_files: whether `shuffle_after_epoch` shuffles files, instead of entries.
        """
        values: dict[str, Any] = {each.name: node.argument(each.name) or 0 for each in fields(cls)}
        return cls(**{**values, "shuffles_files": shuffles_files})

    def __post_init__(self) -> None:
        for name in ("num_shards", "prefetch_queue_depth", "initial_fill"):
            if getattr(self, name) < 1:
                raise ArgumentValueError(f"argument {name!r} must be 1 or more, not {getattr(self, name)}")
        if not 0 <= self.shard_id < self.num_shards:
            raise ArgumentValueError(
                f"argument 'shard_id' must be 0 or more and less than num_shards={self.num_shards}, not {self.shard_id}"
            )
        if self.shuffle_after_epoch:
            for name in ("stick_to_shard",) if self.shuffles_files else ("random_shuffle", "stick_to_shard"):
                if getattr(self, name):
                    raise ArgumentValueError(f"shuffle_after_epoch and {name} cannot be both true")


def output_dtypes(argument: Any, count: int, default: np.dtype[Any] | None) -> list[Any]:
    """Return the dtype of each output, for an argument that has one or a list of them, or isn't given."""
    if argument is None:
        return [default] * count
    chosen = list(argument) if isinstance(argument, list | tuple) else [argument]
    if len(chosen) != count:
        raise ArgumentValueError(f"{len(chosen)} dtypes for {count} outputs")
    return [to_numpy_type(DALIDataType(each)) for each in chosen]
