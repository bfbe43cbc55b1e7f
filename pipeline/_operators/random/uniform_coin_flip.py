"""Random numbers: what the distributions share, uniform and coin_flip."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import Argument, Input, Kind, OperatorSchema
from pipeline._imaging import convert
from pipeline._operator_api.arguments import Arguments
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.operator import BatchOperator
from pipeline._operator_api.upload import upload
from pipeline.errors import ArgumentValueError
from pipeline.tensors.cpu import Array, TensorListCPU
from pipeline.types import DALIDataType, to_numpy_type

__all__ = ["COIN_FLIP", "SHAPE", "SHAPE_LIKE", "UNIFORM", "RandomCpu", "RandomGpu", "column", "declare"]

SHAPE = Argument("shape", Kind.INTS, "Shape of a sample; by default a scalar.", per_sample=True)
SHAPE_LIKE = Input("shape_like", "Samples of the output get the shapes of these.", optional=True, any_device=True)


def declare(name: str, doc: str, *arguments: Argument, dtypes: str, gpu: bool = True) -> OperatorSchema:
    """Declare a distribution.

    Args:
        name: below `fn.random`.
        doc: documentation.
        arguments: its own.
        dtypes: those of the output, for the documentation; the first one is the default.
        gpu: whether it runs there, too.
    """
    if gpu:
        doc += "\n\nOn the GPU the numbers are those of the CPU, which draws them; they are copied."
    chosen = Argument("dtype", Kind.DTYPE, f"Dtype of the output: {dtypes}; numbers are rounded and clamped.")
    devices = ("cpu", "gpu") if gpu else ("cpu",)
    return register(OperatorSchema(f"random.{name}", doc, (SHAPE_LIKE,), (*arguments, SHAPE, chosen), devices))


UNIFORM = declare(
    "uniform",
    "Draws from a uniform distribution: of the numbers in a half-open range, or of a list of values.",
    Argument("range", Kind.FLOATS, "Numbers from range[0] to below range[1].", (-1.0, 1.0), per_sample=True),
    Argument("values", Kind.FLOATS, "Draw one of these values instead; wins over `range`.", per_sample=True),
    dtypes="FLOAT, FLOAT64 or an integer",
)
COIN_FLIP = declare(
    "coin_flip",
    "Draws 1 with a given probability, else 0.",
    Argument("probability", Kind.FLOAT, "Probability of 1.", 0.5, per_sample=True),
    dtypes="INT32, UINT8 or BOOL",
)


class RandomCpu(BatchOperator):
    """Draws the numbers of sample 0, then those of sample 1 and so on."""

    default_dtype = DALIDataType.FLOAT
    #: Which input gives the shapes, where it is given.
    shape_like = 0

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        arguments = batch.arguments(self.node)
        dtype = self.dtype(arguments, inputs)
        generator = batch.generator(self.node)
        shapes = self._shapes(arguments, inputs)
        draw = self.prepare(arguments, inputs, batch.size, dtype)
        if shapes is None or all(shape == shapes[0] for shape in shapes):
            shape = () if shapes is None else shapes[0]
            drawn = draw(generator, (batch.size, *shape), slice(None))
            if isinstance(drawn, list):  # what was drawn has a shape of its own
                alike = len({sample.shape for sample in drawn}) == 1
                return [TensorListCPU(np.stack(drawn) if alike else drawn)]
            return [TensorListCPU(convert(drawn, dtype))]
        samples = [
            convert(draw(generator, (1, *shape), slice(index, index + 1))[0], dtype)
            for index, shape in enumerate(shapes)
        ]
        return [TensorListCPU(samples)]

    def dtype(self, arguments: Arguments, inputs: Sequence[Any]) -> np.dtype[Any]:
        """Return the dtype of the output."""
        wanted = arguments.constant("dtype")  # UINT8 is 0
        return to_numpy_type(self.default_dtype if wanted is None else wanted)

    @abstractmethod
    def prepare(self, arguments: Arguments, inputs: Sequence[Any], size: int, dtype: np.dtype[Any]) -> Any:
        """Read the arguments of a batch.

        Returns:
            a function of a generator, a shape with some samples in front and the slice of the batch that they are,
            which draws them.

        Raises:
            ArgumentValueError: for arguments out of their range.
        """

    def _shapes(self, arguments: Arguments, inputs: Sequence[Any]) -> list[tuple[int, ...]] | None:
        rows = arguments.rows("shape", np.int64)
        if len(inputs) > self.shape_like:
            if rows is not None:
                raise ArgumentValueError("argument 'shape' can't be given together with samples that have a shape")
            shapes: list[tuple[int, ...]] = inputs[self.shape_like].shape()
            return shapes
        if rows is None:
            return None
        if any((row < 0).any() for row in rows):
            raise ArgumentValueError("argument 'shape' must not be negative")
        return [tuple(row.tolist()) for row in rows]


class RandomGpu(RandomCpu):
    """Copies what was drawn on the CPU."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        (made,) = super().run(batch, inputs)
        return [upload(batch, made)]


def column(values: Array, ndim: int) -> Array:
    """Give one value a sample as many trailing dimensions as the drawn numbers have."""
    return values.reshape(values.shape + (1,) * (ndim - 1))


class _Uniform(RandomCpu):
    """Scales uniform numbers to the range, or takes them as positions in the list of values."""

    def prepare(self, arguments: Arguments, inputs: Sequence[Any], size: int, dtype: np.dtype[Any]) -> Any:
        if arguments.given("values"):
            rows = arguments.rows("values")
            assert rows is not None
            if any(len(row) == 0 for row in rows):
                raise ArgumentValueError("argument 'values' is empty")
            return _of_values(rows)
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


def _of_values(rows: Sequence[Array]) -> Any:
    lengths = np.array([len(row) for row in rows])
    table = np.stack([np.resize(row, lengths.max()) for row in rows])

    def draw(generator: np.random.Generator, shape: tuple[int, ...], samples: slice) -> Array:
        chosen = (generator.random(shape) * column(lengths[samples], len(shape))).astype(np.int64)
        flat = chosen.reshape(shape[0], -1)
        picked: Array = np.take_along_axis(table[samples], flat, axis=1).reshape(shape)
        return picked

    return draw


class _CoinFlip(RandomCpu):
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


@implements(UNIFORM, "cpu")
class UniformCpu(_Uniform):
    """Of a range or of values."""


@implements(UNIFORM, "gpu")
class UniformGpu(RandomGpu, _Uniform):
    """Of a range or of values."""


@implements(COIN_FLIP, "cpu")
class CoinFlipCpu(_CoinFlip):
    """1 or 0."""


@implements(COIN_FLIP, "gpu")
class CoinFlipGpu(RandomGpu, _CoinFlip):
    """1 or 0."""
