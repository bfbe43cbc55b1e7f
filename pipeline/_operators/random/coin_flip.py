"""`random.coin_flip`: 1 with a given probability, else 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeline._declaration.registry import implements
from pipeline._declaration.schema import Argument, Kind
from pipeline._imaging import convert
from pipeline._operator_api.arguments import Arguments
from pipeline._operator_api.joint_draws import COIN, NumberDraw
from pipeline._operators.random.distribution import DistributionCpu, DistributionGpu, column, declare
from pipeline.errors import ArgumentValueError
from pipeline.tensors.cpu import Array
from pipeline.types import DALIDataType

__all__ = ["COIN_FLIP"]

COIN_FLIP = declare(
    "coin_flip",
    "Draws 1 with a given probability, else 0.",
    Argument("probability", Kind.FLOAT, "Probability of 1.", 0.5, per_sample=True),
    dtypes="INT32, UINT8 or BOOL",
)


@implements(COIN_FLIP, "cpu")
class CoinFlipCpu(DistributionCpu):
    """Compares uniform numbers with the probability."""

    default_dtype = DALIDataType.INT32

    def prepare(self, arguments: Arguments, inputs: Sequence[Any], size: int, dtype: np.dtype[Any]) -> Any:
        probability = arguments.scalars("probability")
        assert probability is not None
        if np.isnan(probability).any():
            raise ArgumentValueError("argument 'probability' isn't a number")

        def draw(generator: np.random.Generator, shape: tuple[int, ...], samples: slice) -> Array:
            flipped: Array = generator.random(shape) < column(probability[samples], len(shape))
            return flipped

        return draw

    def constant_draw(self, arguments: Arguments, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NumberDraw | None:
        probability = float(arguments.constant("probability"))
        if np.isnan(probability) or dtype.itemsize != 4:
            return None
        return NumberDraw(COIN, shape, probability, values=convert(np.array([False, True]), dtype))


@implements(COIN_FLIP, "gpu")
class CoinFlipGpu(DistributionGpu, CoinFlipCpu):
    """0 and 1, copied to the GPU."""
