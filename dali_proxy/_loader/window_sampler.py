"""`WindowSampler`: the base of batch samplers that plan the batches of all ranks by windows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from numbers import Integral
from typing import Any, ClassVar

from dali_proxy._loader.packing_plan import split_batches
from dali_proxy._loader.rank_batch_sampler import Dealt, RankBatchSampler
from dali_proxy.pipeline.errors import ArgumentValueError

_FEW_RANKS = 8  # any number of ranks that divides it gets the same batches


class WindowSampler(RankBatchSampler):
    """Base of samplers whose batches have at most a number of tokens, and are planned for several batches at a time.

    Args:
        ranks: the number of batches of an epoch is a multiple of it; None for the least common multiple of 8 and
            `world_size`.
        rank: number of this rank, or None.
        world_size: number of ranks, or None.
        numbers: further arguments, which must be 1 or more, or None.

    Raises:
        ArgumentValueError: a number isn't positive.
    """

    #: Place of the first window of an epoch.
    _beginning: ClassVar[Mapping[str, Any]] = {"window_batch": 0, "window_sample": 0}

    def __init__(self, ranks: int | None, rank: int | None, world_size: int | None, **numbers: int | None) -> None:
        super().__init__(rank, world_size)
        for name, number in (*numbers.items(), ("ranks", ranks)):
            if number is not None and not (isinstance(number, Integral) and number >= 1):
                raise ArgumentValueError(f"{name} must be a whole number, 1 or more, not {number!r}")
        self._ranks = ranks
        self._position = 0  # batches of the epoch that all ranks have drawn
        self._place_of_window: dict[str, Any] = dict(self._beginning)  # of the window with the next batch
        self._running = 0  # ranks of the plan of the last iterator
        self._resumed: Mapping[str, Any] | None = None  # state of the next iterator

    @property
    def _identity(self) -> dict[str, int]:
        """The values that the plan depends on."""
        raise NotImplementedError

    def _rest(self) -> Iterator[tuple[Sequence[int], dict[str, Any]]]:
        """Yield the batches from the position on, each with the place of the window of the batch behind it."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Return the position in the epoch, which is the same on all ranks after the same number of batches."""
        if self._resumed is not None:
            return dict(self._resumed)
        return {"position": self._position, **self._place_of_window, "ranks": self._running, **self._identity}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume the next iterator at a position, with any number of ranks.

        Raises:
            ArgumentMismatchError: the state belongs to a sampler with other samples or another plan.
        """
        self._check(state, self._identity)
        self._resumed = dict(state)

    def __iter__(self) -> Iterator[list[int]]:
        state, self._resumed = self._resumed or {}, None
        rank, world_size = self._place
        self._position = state.get("position", 0)
        self._place_of_window = {name: state.get(name, first) for name, first in self._beginning.items()}
        self._running = state.get("ranks", 0) or self._groups(world_size)
        batches = self._rest()
        while step := list(islice(batches, world_size)):
            left = [batch for batch, _ in step]
            mine = split_batches(left, world_size)[rank] if len(left) < world_size else left[rank]
            number, self._position = self._position + rank, self._position + len(step)
            self._place_of_window = step[-1][1]
            yield Dealt(mine, number)
        self._position, self._place_of_window = 0, dict(self._beginning)

    def _groups(self, world_size: int) -> int:
        return self._ranks or math.lcm(_FEW_RANKS, world_size)
