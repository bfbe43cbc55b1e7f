"""`random.uniform`: uniform distribution over a range or a list of values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeline._declaration.registry import implements
from pipeline._declaration.schema import Argument, Kind
from pipeline._operator_api.arguments import Arguments
from pipeline._operators.random.distribution import DistributionCpu, DistributionGpu, column, declare
from pipeline.errors import ArgumentValueError
from pipeline.tensors.cpu import Array

__all__ = ["UNIFORM"]

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
class UniformCpu(DistributionCpu):
    """Scales uniform numbers to the range, or uses them as positions in the list of values."""

    def prepare(self, arguments: Arguments, inputs: Sequence[Any], size: int, dtype: np.dtype[Any]) -> Any:
        if arguments.given("values"):
            rows = arguments.rows("values")
            assert rows is not None
            if any(len(row) == 0 for row in rows):
                raise ArgumentValueError("argument 'values' is empty")
            return _draw_from(rows)
        limits = arguments.vectors("range", 2)
        assert limits is not None
        if not (limits[:, 0] < limits[:, 1]).all():
            raise ArgumentValueError("argument 'range': the first number must be smaller than the second")

        def draw(generator: np.random.Generator, shape: tuple[int, ...], samples: slice) -> Array:
            low, high = (column(limits[samples, side], len(shape)) for side in (0, 1))
            scaled: Array = low + generator.random(shape) * (high - low)
            if dtype.kind == "f":  # rounding to the output's precision must not reach the excluded end
                scaled = np.minimum(scaled, np.nextafter(high.astype(dtype), low.astype(dtype)))
            return scaled

        return draw


@implements(UNIFORM, "gpu")
class UniformGpu(DistributionGpu, UniformCpu):
    """Uniform numbers, copied to the GPU."""


def _draw_from(rows: Sequence[Array]) -> Any:
    """Return a function that draws from a list of values per sample."""
    lengths = np.array([len(row) for row in rows])
    table = np.stack([np.resize(row, lengths.max()) for row in rows])

    def draw(generator: np.random.Generator, shape: tuple[int, ...], samples: slice) -> Array:
        chosen = (generator.random(shape) * column(lengths[samples], len(shape))).astype(np.int64)
        flat = chosen.reshape(shape[0], -1)
        values: Array = np.take_along_axis(table[samples], flat, axis=1).reshape(shape)
        return values

    return draw
