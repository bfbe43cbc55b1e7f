"""`DistributedBatchSampler`: deals the batches of an epoch to the ranks of a distributed run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from itertools import chain, repeat

import numpy as np
import numpy.typing as npt

from dali_proxy._common.policies import LastBatchPolicy, check_policy
from dali_proxy._loader.rank_batch_sampler import Dealt, RankBatchSampler
from dali_proxy.pipeline._readers.order import permutation
from dali_proxy.pipeline._rng import BatchKey
from dali_proxy.pipeline.errors import ArgumentValueError


class DistributedBatchSampler(RankBatchSampler):
    """Batch sampler for one rank of a distributed run.

    All ranks draw the same order, and each takes its batches from it: in every step, the ranks' batches are adjacent
    parts of the order. So no sample is read twice, and all ranks have the same number of batches. With
    `dali_proxy.DataLoader`, the random numbers of a batch depend on its position in the order. An epoch over the same
    samples in batches of the same size therefore contains the same batches with any number of ranks. A run may resume
    with another number of ranks, in the middle of an epoch: load the `state_dict` of any rank into the loaders of all
    ranks.

    `dali_proxy.DataLoader` sets the epoch. With other loaders, call `set_epoch` before each epoch.

    Args:
        dataset: dataset with a length, or that length.
        batch_size: number of samples in a batch of one rank.
        shuffle: whether each epoch has a new random order; it must be the same on all ranks.
        seed: seed of the orders; it must be the same on all ranks.
        last_batch_policy: treatment of the last step if there are too few samples for all ranks. PARTIAL divides the
            rest evenly into smaller batches; every sample is read exactly once (if there are at least as many samples
            as ranks, and `batch_size` isn't 1). FILL adds samples until all batches are full. DROP drops the rest.
        last_batch_padded: whether FILL repeats the last sample; otherwise, it adds the first samples of the epoch.
        order: function that returns the indices of an epoch, given its number, such as for weighted sampling. It must
            return the same indices on all ranks, and always the same number of them. It replaces `shuffle` and `seed`.
        rank: number of this rank; by default, that of `distributed.environment` when an epoch begins.
        world_size: number of ranks, likewise.

    Raises:
        ArgumentValueError: `batch_size` isn't 1 or more, or `rank` not below `world_size`.

    Attributes:
        epoch: number of the epoch.

    Example:
        >>> [list(DistributedBatchSampler(10, 2, shuffle=False, rank=rank, world_size=2)) for rank in range(2)]
        [[[0, 1], [4, 5], [8]], [[2, 3], [6, 7], [9]]]
    """

    def __init__(
        self,
        dataset: Sized | int,
        batch_size: int,
        *,
        shuffle: bool = True,
        seed: int = 0,
        last_batch_policy: LastBatchPolicy = LastBatchPolicy.PARTIAL,
        last_batch_padded: bool = False,
        order: Callable[[int], Sequence[int] | npt.NDArray[np.int64]] | None = None,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        if batch_size < 1:
            raise ArgumentValueError(f"batch_size must be 1 or more, not {batch_size}")
        super().__init__(rank, world_size)
        self.last_batch_policy = check_policy(last_batch_policy)
        self.last_batch_padded = last_batch_padded
        self._samples = dataset if isinstance(dataset, int) else len(dataset)
        self._batch_size = batch_size
        self._shuffle, self._seed = shuffle, seed
        self._order = order
        self._position = 0  # samples of the epoch that all ranks have drawn
        self._resumed: int | None = None  # position of the next iterator

    def state_dict(self) -> dict[str, int]:
        """Return the position in the epoch, which is the same on all ranks after the same number of batches."""
        position = self._position if self._resumed is None else self._resumed
        return {"position": position, "samples": self._samples, "seed": self._seed}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Resume the next iterator at a position, with any number of ranks.

        Raises:
            ArgumentMismatchError: the state belongs to a sampler with another number of samples or another seed.
        """
        self._check(state, {"samples": self._samples, "seed": self._seed})
        self._resumed = int(state["position"])

    def __iter__(self) -> Iterator[list[int]]:
        self._position, self._resumed = self._resumed or 0, None
        order = self._draw(self.epoch)
        rank, ranks = self._place
        full, last = self._steps(self._samples - self._position, ranks)
        for total in chain(repeat(self._batch_size * ranks, full), last):
            begin = self._position
            first, end = (begin + total * each // ranks for each in (rank, rank + 1))
            self._position = min(begin + total, self._samples)
            yield Dealt([self._index(order, position) for position in range(first, end)], first)
        self._position = 0

    def __len__(self) -> int:
        full, last = self._steps(self._samples, self.world_size)
        return full + len(last)

    def _draw(self, epoch: int) -> Sequence[int] | npt.NDArray[np.int64]:
        if self._order is not None:
            order = self._order(epoch)
            if len(order) != self._samples:
                raise ArgumentValueError(f"order({epoch}) returned {len(order)} indices instead of {self._samples}")
            return order
        if not self._shuffle:
            return range(self._samples)
        # A view of the array: a list of a billion numbers would take 40 GB.
        return permutation(self._samples, self._seed, 0, BatchKey(epoch)).data

    def _index(self, order: Sequence[int] | npt.NDArray[np.int64], position: int) -> int:
        if position < self._samples:
            return int(order[position])
        return int(order[-1] if self.last_batch_padded else order[(position - self._samples) % self._samples])

    def _steps(self, samples: int, ranks: int) -> tuple[int, tuple[int, ...]]:
        """Return the number of full steps in the rest of an epoch, and the sizes of its last steps, of all ranks."""
        step = self._batch_size * ranks
        full, rest = divmod(samples, step)
        policy = self.last_batch_policy
        last: tuple[int, ...] = ()
        if rest and policy is LastBatchPolicy.FILL:
            last = (step,)
        elif rest and policy is LastBatchPolicy.PARTIAL:
            if rest >= ranks:
                last = (rest,)
            elif full and step >= 2 * ranks:  # too few for all ranks: divide the last two steps evenly
                full, both = full - 1, step + rest
                last = (both - both // 2, both // 2)
            else:
                last = (ranks,)
        return full, last
