"""Runs a function of the user on each batch, with random numbers that belong to the batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from dali_proxy.pipeline._user_functions.seeding import GlobalGenerators
from dali_proxy.pipeline.errors import ArgumentTypeError


class BatchTransform:
    """A function that receives each finished batch, in the training process.

    Args:
        function: takes a batch and returns the batch that the loader yields.
    """

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self._seed: tuple[int, int] = (0, 0)

    def begin(self, seed: int, epoch: int) -> None:
        """Begin an epoch, whose random numbers depend on both arguments."""
        self._seed = seed, epoch

    def __call__(self, batch: Any, number: int) -> Any:
        """Return the result for the batch `number` of the epoch."""
        with seeded(np.random.SeedSequence([*self._seed, number])):
            try:
                return self._function(batch)
            except StopIteration as stop:
                raise RuntimeError("StopIteration was raised by batch_transform, which would end the epoch") from stop


@contextmanager
def seeded(seed: np.random.SeedSequence) -> Iterator[None]:
    """Seed the global generators of Python, NumPy and torch, on the CPU and the current GPU. Reset them at the end."""
    generators = GlobalGenerators(gpu=True)
    with generators.turn, generators:
        generators.seed(int(seed.generate_state(1, np.uint64)[0]))
        yield


def check_batch_transform(function: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    """Return the argument, if it is a function.

    Raises:
        ArgumentTypeError: it is neither callable nor None.
    """
    if function is not None and not callable(function):
        raise ArgumentTypeError(
            f"batch_transform must be a function that takes a batch, not {type(function).__name__} ({function!r})"
        )
    return function
