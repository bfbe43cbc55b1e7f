"""`random.uniform`: uniform distribution over a range or a list of values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeline._declaration.registry import implements
from pipeline._declaration.schema import Argument, Kind
from pipeline._graph.graph import GraphNode
from pipeline._imaging import convert
from pipeline._kernels.uniform import plan_uniform, uniform_scalars
from pipeline._operator_api.arguments import Arguments
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.gpu_operator import GpuOperator, allocate
from pipeline._operator_api.joint_draws import LISTED, NumberDraw
from pipeline._operator_api.joint_draws import UNIFORM as UNIFORM_DRAW
from pipeline._operator_api.memoize import ArgumentCache
from pipeline._operator_api.operator import Setup
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
            if not arguments.per_sample("values"):
                return _draw_from_one(np.ravel(np.asarray(arguments.constant("values"), np.float64)))
            rows = arguments.rows("values")
            assert rows is not None
            if any(len(row) == 0 for row in rows):
                raise ArgumentValueError(_EMPTY)
            return _draw_from(rows)
        low, high, largest = _ends(arguments, dtype)
        if not arguments.per_sample("range"):
            one_low, one_range, one_largest = low[0], high[0] - low[0], largest[0]
            narrows = _narrows(dtype, low[0], high[0])

            def draw_from_one(generator: np.random.Generator, shape: tuple[int, ...], samples: slice) -> Array:
                scaled: Array = np.minimum(one_low + generator.random(shape) * one_range, one_largest)
                return scaled.astype(np.float32) if narrows else scaled

            return draw_from_one
        ends = low, high - low, largest

        def draw(generator: np.random.Generator, shape: tuple[int, ...], samples: slice) -> Array:
            low, extent, largest = (column(each[samples], len(shape)) for each in ends)
            scaled: Array = np.minimum(low + generator.random(shape) * extent, largest)
            return scaled

        return draw

    def constant_draw(self, arguments: Arguments, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NumberDraw | None:
        if arguments.given("values"):
            values = np.ravel(np.asarray(arguments.constant("values"), np.float64))
            is_listed = len(values) > 0 and dtype.itemsize == 4
            return NumberDraw(LISTED, shape, values=convert(values, dtype)) if is_listed else None
        (low,), (high,), (largest,) = _ends(arguments, dtype)
        return NumberDraw(UNIFORM_DRAW, shape, low, high - low, largest) if _narrows(dtype, low, high) else None


@implements(UNIFORM, "gpu")
class UniformGpu(DistributionGpu, UniformCpu, GpuOperator):
    """Draws the same numbers on the GPU; those of a list of values are drawn on the CPU."""

    only_launches = True

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._read = ArgumentCache(node, lambda batch: self._shapes_and_ends(batch, ()))

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        dtype, shapes, ends = self._shapes_and_ends(batch, inputs) if inputs else self._read.get(batch)
        if shapes is None:
            return super().run(batch, inputs)
        low, high, largest = ends
        output, target = allocate(shapes, dtype)
        starts = batch.sample_starts(self.node) if self._has_shapes(inputs) else None
        launch = plan_uniform(target, batch.generator(self.node), low=low, high=high, limit=largest, starts=starts)
        if launch is not None:
            self.kernels.run(launch, batch.stream)
        return [output]

    def seed_scalars(self, batch: Batch) -> tuple[np.generic, ...]:
        """Return the scalars of the launch, which determine the random numbers."""
        return uniform_scalars(batch.generator(self.node))

    def _shapes_and_ends(self, batch: Batch, inputs: Sequence[Any]) -> tuple[np.dtype[Any], Array | None, Any]:
        """Return the dtype, the shapes (N, ndim), and `_ends`; no shapes if the CPU must draw the numbers."""
        arguments = batch.arguments(self.node)
        dtype = self.dtype(arguments, inputs)
        shapes = self._shapes(arguments, inputs) or [()] * batch.size
        if arguments.given("values") or dtype not in _DRAWN_ON_GPU or len(set(map(len, shapes))) > 1:
            return dtype, None, None
        return dtype, np.array(shapes, np.int64).reshape(batch.size, -1), _ends(arguments, dtype)


# Numbers up to this one don't overflow in float32.
_LARGE = 1e38
_EMPTY = "argument 'values' is empty"
_DRAWN_ON_GPU = {
    np.dtype(name) for name in ("float32", "float64", "uint8", "int8", "uint16", "int16", "int32", "int64")
}


def _ends(arguments: Arguments, dtype: np.dtype[Any]) -> tuple[Array, Array, Array]:
    """Return the ends of the ranges, and the largest numbers below the upper end in the dtype of the output.

    Raises:
        ArgumentValueError: A range is empty.
    """
    limits = arguments.vectors("range", 2)
    assert limits is not None
    low, high = limits[:, 0], limits[:, 1]
    if not (low < high).all():
        raise ArgumentValueError("argument 'range': the first number must be smaller than the second")
    if dtype.kind != "f":
        return low, high, np.full(len(limits), np.inf)
    # Rounding to the precision of the output must not reach the excluded end.
    return low, high, np.nextafter(high.astype(dtype), low.astype(dtype)).astype(np.float64)


def _narrows(dtype: np.dtype[Any], low: float, high: float) -> bool:
    """Return whether numbers of a range are float32 and don't overflow."""
    return dtype == np.float32 and max(abs(low), abs(high)) < _LARGE


def _draw_from_one(values: Array) -> Any:
    """Return a function that draws from one list of values."""
    if not len(values):
        raise ArgumentValueError(_EMPTY)

    def draw(generator: np.random.Generator, shape: tuple[int, ...], samples: slice) -> Array:
        drawn: Array = values[(generator.random(shape) * len(values)).astype(np.int64)]
        return drawn

    return draw


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
