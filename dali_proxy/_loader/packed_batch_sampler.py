"""`PackedBatchSampler`: batches by tokens instead of samples, which cost the same on all ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy._loader.packing_plan import PackingPlan, SampleSizes, split_batches
from dali_proxy._loader.window_sampler import WindowSampler
from dali_proxy.pipeline._readers.order import permutation
from dali_proxy.pipeline._rng import BatchKey
from dali_proxy.pipeline.errors import ArgumentValueError


@dataclass(frozen=True)
class Balance:
    """What an epoch of packed batches is like.

    Attributes:
        batches: number of batches of all ranks.
        padding: share of the batches' tokens that no sample fills.
        heaviest: for the number of tokens and for each of the `costs`: the cost of the heaviest rank of a step,
            relative to the mean of its ranks, averaged over the steps.
    """

    batches: int
    padding: float
    heaviest: tuple[float, ...]


class PackedBatchSampler(WindowSampler):
    """Batch sampler for one rank: each batch has at most a number of tokens, and all ranks' batches cost the same.

    The batches of all ranks are planned once, before any sample is read, the same on every rank without communication.
    The plan is made for `window` batches at a time. The largest samples are placed first, each in the batch that is
    then the lightest among those with room for it. A batch weighs as much as the largest of its relative costs: its
    tokens, and each of the `costs`, such as the patches for the vision tower. Batches of similar cost go to the ranks
    of a step.

    With `dali_proxy.DataLoader`, an epoch contains the same batches, with the same random numbers, with any number of
    ranks that divides `ranks`, and any number of workers. A run may resume with another number of ranks, in the middle
    of an epoch: load the `state_dict` of any rank into the loaders of all ranks.

    Args:
        lengths: number of tokens of each sample; or a function that returns it, given a sample's index, which is called
            on every rank, for a window of samples at a time. The number of patches of an image follows from its size,
            which is in the header of its file; see `PatchGrid`.
        tokens: largest number of tokens of a batch.
        costs: further costs of each sample that all ranks should share equally, (N,) or (N, kinds), or a function that
            returns one or several, given an index.
        samples: number of samples, if `lengths` is a function and there is no `order`.
        shuffle: whether each epoch has a new random order.
        seed: seed of the orders; it must be the same on all ranks.
        order: function that returns the indices of an epoch, given its number, such as that of a `Mixture`. It must
            return the same on all ranks. It replaces `shuffle`.
        window: number of batches that are planned together. More make batches fuller, and take more time.
        ranks: the number of batches of an epoch is a multiple of it. By default, it is the least common multiple of 8
            and `world_size`. A state has the number of its run.
        rank: number of this rank; by default, that of `distributed.environment` when an epoch begins.
        world_size: number of ranks, likewise.

    Raises:
        ArgumentValueError: a number isn't positive, a length or cost is negative, or the number of samples isn't known.
            When the batch is planned: a sample has more than `tokens` tokens.

    Example:
        >>> sampler = PackedBatchSampler([3, 3, 2, 5, 4, 1], tokens=6, shuffle=False, ranks=1)
        >>> list(sampler)
        [[3, 5], [0, 1], [2, 4]]
    """

    def __init__(
        self,
        lengths: npt.ArrayLike | Callable[[int], int],
        tokens: int,
        *,
        costs: Any = None,
        samples: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        order: Callable[[int], Sequence[int] | npt.NDArray[np.int64]] | None = None,
        window: int = 256,
        ranks: int | None = None,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        super().__init__(ranks, rank, world_size, tokens=tokens, window=window, samples=samples)
        self._sizes = SampleSizes(lengths, costs)
        known = self._sizes.count if samples is None else samples
        if known is None and order is None:
            raise ArgumentValueError("lengths is a function: pass samples= or order=, too")
        self._samples, self._tokens, self._window = known or 0, tokens, window
        self._shuffle, self._seed, self._order = shuffle, seed, order
        self._counted: tuple[Any, int] | None = None

    @property
    def _identity(self) -> dict[str, int]:
        sizes = {"samples": self._samples, "lengths": self._sizes.checksum}
        return {**sizes, "seed": self._seed, "tokens": self._tokens, "window": self._window}

    def _rest(self) -> Iterator[tuple[Sequence[int], dict[str, Any]]]:
        place = self._place_of_window
        number = place["window_batch"]
        for window in self._plan(self.epoch, self._running).windows(place["window_sample"]):
            end = number + len(window.batches)
            behind = {"window_batch": end, "window_sample": window.end}
            for each in range(max(number, self._position), end):
                yield window.batches[each - number].tolist(), place if each + 1 < end else behind
            number, place = end, behind

    def __len__(self) -> int:
        """Return the number of batches of this rank in the epoch. The epoch is planned for that."""
        world_size = self.world_size
        return -(-self._count(self._groups(world_size)) // world_size)

    def balance(self, world_size: int | None = None) -> Balance:
        """Return how full the batches of the epoch are, and how equal the ranks.

        Args:
            world_size: number of ranks; by default, that of this sampler.
        """
        world_size = world_size or self.world_size
        steps: list[np.ndarray] = []
        total = 0.0
        plan = self._plan(self.epoch, self._groups(world_size))
        batches = [batch for window in plan.windows() for batch in window.batches]
        for first in range(0, len(batches), world_size):
            costs = []
            for batch in split_batches(batches[first : first + world_size], world_size):
                costs.append(self._sizes.costs(batch, self._sizes.lengths(batch)).sum(axis=0))
            step = np.array(costs)
            total += step[:, 0].sum()
            steps.append(step.max(axis=0) / np.maximum(step.mean(axis=0), 1e-300))
        count = len(steps) * world_size
        return Balance(count, float(1 - total / (count * self._tokens)), tuple(np.mean(steps, axis=0).tolist()))

    def _count(self, ranks: int) -> int:
        key = self.epoch, ranks
        if self._counted is None or self._counted[0] != key:
            windows = self._plan(self.epoch, ranks).windows()
            self._counted = key, sum([len(window.batches) for window in windows])
        return self._counted[1]

    def _plan(self, epoch: int, ranks: int) -> PackingPlan:
        if self._order is not None:
            order = np.asarray(self._order(epoch), np.int64)
        elif self._shuffle:
            order = permutation(self._samples, self._seed, 0, BatchKey(epoch))
        else:
            order = np.arange(self._samples)
        key = (self._seed, epoch) if self._shuffle or self._order is not None else None
        return PackingPlan(order, self._sizes, self._tokens, self._window, ranks, key)
