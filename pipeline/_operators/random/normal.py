"""`random.normal`: normal distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeline._declaration.registry import implements
from pipeline._declaration.schema import Argument, Kind
from pipeline._operator_api.arguments import Arguments
from pipeline._operators.random.distribution import DistributionCpu, DistributionGpu, column, declare
from pipeline.tensors.cpu import Array

__all__ = ["NORMAL"]

NORMAL = declare(
    "normal",
    "Draws numbers from a normal distribution.",
    Argument("mean", Kind.FLOAT, "Mean of the distribution.", 0.0, per_sample=True),
    Argument("stddev", Kind.FLOAT, "Standard deviation of the distribution.", 1.0, per_sample=True),
    dtypes="FLOAT, FLOAT64 or an integer",
)


@implements(NORMAL, "cpu")
class NormalCpu(DistributionCpu):
    """Scales numbers of the standard normal distribution."""

    def prepare(self, arguments: Arguments, inputs: Sequence[Any], size: int, dtype: np.dtype[Any]) -> Any:
        mean, stddev = arguments.scalars("mean"), arguments.scalars("stddev")
        assert mean is not None
        assert stddev is not None

        def draw(generator: np.random.Generator, shape: tuple[int, ...], samples: slice) -> Array:
            center, scale = (column(values[samples], len(shape)) for values in (mean, stddev))
            scaled: Array = center + scale * generator.standard_normal(shape)
            return scaled

        return draw


@implements(NORMAL, "gpu")
class NormalGpu(DistributionGpu, NormalCpu):
    """Normally distributed numbers, copied to the GPU."""
