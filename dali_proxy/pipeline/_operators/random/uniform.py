"""`random.uniform`: uniform distribution over a range or a list of values."""

from __future__ import annotations

from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import Argument, Kind, implements
from dali_proxy.pipeline._operator_api.arguments import Arguments
from dali_proxy.pipeline._operators.random.distribution import TransformedCpu, TransformedGpu, declare, rows_of
from dali_proxy.pipeline._rng import Distribution
from dali_proxy.pipeline.errors import ArgumentValueError

UNIFORM = declare(
    "uniform",
    "Draws numbers from a uniform distribution over a half-open range, or over a list of values.",
    Argument(
        "range", Kind.FLOATS, "Range of the numbers, from range[0] to below range[1].", (-1.0, 1.0), per_sample=True
    ),
    Argument("values", Kind.FLOATS, "Values to draw from, instead of `range`.", per_sample=True),
    dtypes="FLOAT, FLOAT64 or an integer",
)


@implements(UNIFORM, "cpu")
class UniformCpu(TransformedCpu):
    """Scales uniform numbers to the range, or uses them as positions in the list of values."""

    def distribution(self, arguments: Arguments, dtype: np.dtype[Any]) -> Distribution:
        if arguments.given("values"):
            return _listed(arguments)
        limits = rows_of(arguments, "range", 2)
        low, high = limits[:, 0], limits[:, 1]
        if not (low < high).all():
            raise ArgumentValueError("argument 'range': the first number must be smaller than the second")
        if dtype.kind != "f":
            return Distribution(Distribution.UNIFORM, low, high - low)
        # Rounding to the precision of the output must not reach the excluded end.
        largest = np.nextafter(high.astype(dtype), low.astype(dtype)).astype(np.float64)
        return Distribution(Distribution.UNIFORM, low, high - low, largest)


@implements(UNIFORM, "gpu")
class UniformGpu(TransformedGpu, UniformCpu):
    """The same numbers, drawn on the GPU."""


def _listed(arguments: Arguments) -> Distribution:
    rows = arguments.rows("values")
    rows = rows if arguments.per_sample("values") else rows[:1]
    lengths = np.array([len(row) for row in rows])
    if not lengths.all():
        raise ArgumentValueError("argument 'values' is empty")
    lists = np.stack([np.resize(row, lengths.max()) for row in rows])
    return Distribution(Distribution.LISTED, lists=lists, lengths=lengths)
