"""`RankBatchSampler`: the base of batch samplers that deal the batches of one order to the ranks of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch.utils.data import Sampler

from dali_proxy.pipeline._ranks import current_ranks
from dali_proxy.pipeline.errors import ArgumentMismatchError, ArgumentValueError


class Dealt(list[int]):
    """The indices of a batch, with its number, which no other batch of the epoch has on any rank."""

    __slots__ = ("global_batch",)

    def __init__(self, indices: Sequence[int], global_batch: int) -> None:
        super().__init__(indices)
        self.global_batch = global_batch

    def __reduce__(self) -> tuple[Any, ...]:
        return Dealt, (list(self), self.global_batch)


class RankBatchSampler(Sampler[list[int]]):
    """Base of batch samplers that draw the same order on all ranks, and take the batches of one rank from it.

    `dali_proxy.DataLoader` sets their epoch, and restores their state exactly, with any number of ranks.

    Args:
        rank: number of this rank; by default, that of `distributed.environment` when an epoch begins.
        world_size: number of ranks, likewise.

    Raises:
        ArgumentValueError: `rank` isn't below `world_size`.

    Attributes:
        epoch: number of the epoch.
    """

    def __init__(self, rank: int | None, world_size: int | None) -> None:
        self._given = rank, world_size
        _ = self._place  # raises now if they contradict each other
        self.epoch = 0

    @property
    def rank(self) -> int:
        """Number of this rank."""
        return self._place[0]

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return self._place[1]

    @property
    def _place(self) -> tuple[int, int]:
        ranks = current_ranks()
        known = ranks.rank, ranks.world_size
        rank, size = (now if given is None else given for given, now in zip(self._given, known, strict=True))
        if not 0 <= rank < size:
            raise ArgumentValueError(f"rank must be 0 or more and less than world_size={size}, not {rank}")
        return rank, size

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iterator."""
        self.epoch = epoch

    @staticmethod
    def _check(state: Mapping[str, int], here: Mapping[str, int]) -> None:
        """Check that a state belongs to a sampler with the same order.

        Raises:
            ArgumentMismatchError: it doesn't.
        """
        for name, value in here.items():
            if state.get(name) != value:
                raise ArgumentMismatchError(
                    f"the state was saved with {name}={state.get(name)}, but this sampler has {name}={value}, so its "
                    "order is different"
                )
