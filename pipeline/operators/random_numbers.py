"""Random numbers: uniform and coin_flip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeline.errors import ArgumentValueError
from pipeline.executor.batch import Batch
from pipeline.operators.base import BatchOperator
from pipeline.operators.registry import implements, register
from pipeline.operators.schema import Argument, Input, Kind, OperatorSchema
from pipeline.tensors.cpu import Array, TensorListCPU
from pipeline.types import DALIDataType, to_numpy_type

_SHAPE_ARGUMENTS = (
    Argument("shape", Kind.INTS, "Shape of a sample; by default a scalar.", per_sample=True),
    Argument("dtype", Kind.DTYPE, "Dtype of the output."),
)
_SHAPE_LIKE = Input("shape_like", "Samples of the output get the shapes of these.", optional=True)

UNIFORM = register(
    OperatorSchema(
        name="random.uniform",
        doc="Draws from a uniform distribution: of the numbers in a half-open range, or of a list of values.",
        inputs=(_SHAPE_LIKE,),
        arguments=(
            Argument("range", Kind.FLOATS, "Numbers from range[0] to below range[1].", (-1.0, 1.0), per_sample=True),
            Argument("values", Kind.FLOATS, "Draw one of these values instead; wins over `range`.", per_sample=True),
            *_SHAPE_ARGUMENTS,
        ),
    )
)

COIN_FLIP = register(
    OperatorSchema(
        name="random.coin_flip",
        doc="Draws 1 with a given probability, else 0.",
        inputs=(_SHAPE_LIKE,),
        arguments=(
            Argument("probability", Kind.FLOAT, "Probability of 1.", 0.5, per_sample=True),
            *_SHAPE_ARGUMENTS,
        ),
    )
)


class _Random(BatchOperator):
    """Draws the numbers of sample 0, then those of sample 1 and so on."""

    default_dtype = DALIDataType.FLOAT

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        arguments = batch.arguments(self.node)
        dtype = to_numpy_type(arguments.constant("dtype") or self.default_dtype)
        generator = batch.generator(self.node)
        if inputs:
            shapes = inputs[0].shape()
        else:
            rows = arguments.rows("shape", np.int64)
            shapes = None if rows is None else [tuple(row.tolist()) for row in rows]
        if shapes is None or all(shape == shapes[0] for shape in shapes):
            shape = () if shapes is None else shapes[0]
            drawn = self.draw(batch, generator.random((batch.size, *shape)), slice(None), dtype)
            return [TensorListCPU(_convert(drawn, dtype))]
        samples = [
            _convert(self.draw(batch, generator.random((1, *shape)), slice(index, index + 1), dtype)[0], dtype)
            for index, shape in enumerate(shapes)
        ]
        return [TensorListCPU(samples)]

    def draw(self, batch: Batch, uniform: Array, samples: slice, dtype: np.dtype[Any]) -> Array:
        """Turn numbers that are uniform in [0, 1) into the operator's, for some samples of the batch."""
        raise NotImplementedError


@implements(UNIFORM, "cpu")
class Uniform(_Random):
    """Scales uniform numbers to the range, or takes them as positions in the list of values."""

    def draw(self, batch: Batch, uniform: Array, samples: slice, dtype: np.dtype[Any]) -> Array:
        arguments = batch.arguments(self.node)
        if arguments.given("values"):
            values = arguments.vectors("values")
            assert values is not None
            if values.shape[1] == 0:
                raise ArgumentValueError("argument 'values' is empty")
            chosen = values[samples]
            position = (uniform * values.shape[1]).astype(np.int64).reshape(len(chosen), -1)
            picked: Array = np.take_along_axis(chosen, position, axis=1).reshape(uniform.shape)
            return picked
        limits = arguments.vectors("range", 2)
        assert limits is not None
        low, high = (_column(limits[samples, side], uniform.ndim) for side in (0, 1))
        if np.any(low >= high):
            raise ArgumentValueError("argument 'range': the first number must be smaller than the second")
        scaled: Array = low + uniform * (high - low)
        if dtype.kind == "f":  # rounding to the output's precision must not reach the excluded end
            scaled = np.minimum(scaled, np.nextafter(high.astype(dtype), low.astype(dtype)))
        return scaled


@implements(COIN_FLIP, "cpu")
class CoinFlip(_Random):
    """Compares uniform numbers with the probability."""

    default_dtype = DALIDataType.INT32

    def draw(self, batch: Batch, uniform: Array, samples: slice, dtype: np.dtype[Any]) -> Array:
        probability = batch.arguments(self.node).scalars("probability")
        assert probability is not None
        if np.any((probability < 0) | (probability > 1)):
            raise ArgumentValueError("argument 'probability' must be between 0 and 1")
        flipped: Array = uniform < _column(probability[samples], uniform.ndim)
        return flipped


def _column(values: Array, ndim: int) -> Array:
    """Give one value a sample as many trailing dimensions as the drawn numbers have."""
    return values.reshape(values.shape + (1,) * (ndim - 1))


def _convert(drawn: Array, dtype: np.dtype[Any]) -> Array:
    if drawn.dtype.kind == "f" and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        drawn = np.clip(np.rint(drawn), limits.min, limits.max)
    return drawn.astype(dtype)
