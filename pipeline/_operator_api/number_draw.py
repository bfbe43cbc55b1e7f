"""The numbers that a random operator draws, for draws of several operators at once."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pipeline._rng import Distribution
from pipeline.tensors.cpu import Array

__all__ = ["NumberDraw"]


@dataclass(frozen=True, eq=False)
class NumberDraw:
    """The numbers that an operator with constant arguments draws.

    Attributes:
        distribution: distribution of all numbers.
        shape: shape of each sample.
        values: values of a list, or of the two sides of a coin. Its dtype, of 4 bytes, is that of the numbers; float32
            for other distributions.
    """

    distribution: Distribution
    shape: tuple[int, ...]
    values: Array

    @property
    def count(self) -> int:
        """Number of numbers for each sample."""
        return math.prod(self.shape)
