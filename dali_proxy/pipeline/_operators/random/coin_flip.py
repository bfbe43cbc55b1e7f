"""`random.coin_flip`: 1 with a given probability, else 0."""

from __future__ import annotations

from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import Argument, Kind, implements
from dali_proxy.pipeline._operator_api.arguments import Arguments
from dali_proxy.pipeline._operators.random.distribution import TransformedCpu, TransformedGpu, declare, rows_of
from dali_proxy.pipeline._rng import Distribution
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.types import DALIDataType

COIN_FLIP = declare(
    "coin_flip",
    "Draws 1 with a given probability, else 0.",
    Argument("probability", Kind.FLOAT, "Probability of 1.", 0.5, per_sample=True),
    dtypes="INT32, UINT8 or BOOL",
)


@implements(COIN_FLIP, "cpu")
class CoinFlipCpu(TransformedCpu):
    """Compares uniform numbers with the probability."""

    default_dtype = DALIDataType.INT32

    def distribution(self, arguments: Arguments, dtype: np.dtype[Any]) -> Distribution:
        probability = rows_of(arguments, "probability")[:, 0]
        if np.isnan(probability).any():
            raise ArgumentValueError("argument 'probability' isn't a number")
        return Distribution(Distribution.COIN, probability)


@implements(COIN_FLIP, "gpu")
class CoinFlipGpu(TransformedGpu, CoinFlipCpu):
    """0 and 1, drawn on the GPU."""
