"""`random.beta`: beta distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import Argument, Kind, implements
from dali_proxy.pipeline._operator_api.arguments import Arguments
from dali_proxy.pipeline._operator_api.output_dtype import check_dtype
from dali_proxy.pipeline._operators.random.distribution import DistributionCpu, column, declare
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array
from dali_proxy.pipeline.types import FLOAT, FLOAT64

BETA = declare(
    "beta",
    "Draws numbers between 0 and 1 from a beta distribution.",
    Argument("alpha", Kind.FLOAT, "First parameter of the distribution, positive.", 1.0, per_sample=True),
    Argument("beta", Kind.FLOAT, "Second parameter of the distribution, positive.", 1.0, per_sample=True),
    dtypes="FLOAT or FLOAT64",
    gpu=False,
)


@implements(BETA, "cpu")
class BetaCpu(DistributionCpu):
    """Uses NumPy's beta distribution."""

    def dtype(self, arguments: Arguments, inputs: Sequence[Any]) -> np.dtype[Any]:
        chosen = arguments.constant("dtype")  # UINT8 is 0, so compare with None
        return check_dtype(FLOAT if chosen is None else chosen, (FLOAT, FLOAT64))

    def prepare(self, arguments: Arguments, inputs: Sequence[Any], size: int, dtype: np.dtype[Any]) -> Any:
        alpha, beta = arguments.scalars("alpha"), arguments.scalars("beta")
        for name, values in (("alpha", alpha), ("beta", beta)):
            if not ((values > 0) & np.isfinite(values)).all():
                wrong = int(np.argmin((values > 0) & np.isfinite(values)))
                raise ArgumentValueError(f"argument {name!r} must be positive, not {values[wrong]} (sample {wrong})")

        def draw(generator: np.random.Generator, shape: tuple[int, ...], samples: slice) -> Array:
            first, second = (column(values[samples], len(shape)) for values in (alpha, beta) if values is not None)
            return generator.beta(first, second, shape)

        return draw
