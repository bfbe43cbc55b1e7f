"""The base of the random operators: shapes, dtypes and the order in which numbers are drawn."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dali_proxy.pipeline._cuda.launch import MAX_SAMPLES
from dali_proxy.pipeline._declaration import RANDOM_STATE, Argument, Input, Kind, OperatorSchema, Role, declare_operator
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._imaging import convert, normal_quantiles
from dali_proxy.pipeline._kernels.draws import draw_scalars, plan_draws
from dali_proxy.pipeline._operator_api.arguments import Arguments
from dali_proxy.pipeline._operator_api.batch import ArgumentCache, Batch
from dali_proxy.pipeline._operator_api.gpu_operator import GpuOperator, allocate
from dali_proxy.pipeline._operator_api.operator import BatchOperator, Setup
from dali_proxy.pipeline._operator_api.upload import upload
from dali_proxy.pipeline._rng import Distribution
from dali_proxy.pipeline.errors import ArgumentValueError, PipelineError
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU
from dali_proxy.pipeline.types import DALIDataType, to_numpy_type

SHAPE = Argument("shape", Kind.INTS, "Shape of the samples; scalars by default.", per_sample=True)
SHAPE_LIKE = Input(
    "shape_like", "Samples whose shapes the output gets, instead of `shape`.", optional=True, any_device=True
)


def declare(name: str, doc: str, *arguments: Argument, dtypes: str, gpu: bool = True) -> OperatorSchema:
    """Register the schema of a distribution.

    Args:
        name: name below `fn.random`.
        doc: documentation.
        arguments: arguments of the distribution.
        dtypes: allowed dtypes of the output, for the documentation; the first one is the default.
        gpu: whether the operator has a GPU version.
    """
    if gpu and "GPU" not in doc:
        doc += "\n\nThe GPU version returns the same numbers."
    dtype = Argument("dtype", Kind.DTYPE, f"Dtype of the output: {dtypes}. Numbers are rounded and clamped to it.")
    devices = ("cpu", "gpu") if gpu else ("cpu",)
    role = Role.DISTRIBUTION if gpu else None
    return declare_operator(
        f"random.{name}",
        doc,
        (SHAPE_LIKE,),
        (*arguments, SHAPE, dtype),
        devices,
        random=True,
        draws=("number",),
        role=role,
    )


#: The dtype, the shape of all samples or None, the shape of each sample, and the result of `prepare`.
_Prepared = tuple[np.dtype[Any], tuple[int, ...] | None, Sequence[tuple[int, ...]], Any]


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


class DistributionCpu(BatchOperator):
    """Draws the numbers of sample 0, then those of sample 1, and so on."""

    default_dtype = DALIDataType.FLOAT
    #: Position of the optional input that has the shapes.
    shape_like = 0

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._prepared = ArgumentCache(node, lambda batch: self._prepare(batch, ()))

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        dtype, shape, shapes, draw = self._prepare(batch, inputs) if inputs else self._prepared.get(batch)
        if shape is not None and not self._has_shapes(inputs):
            drawn = draw(batch.generator(self.node), (batch.size, *shape), slice(None))
            if isinstance(drawn, list):  # the chosen elements are arrays of different shapes
                same_shape = len({sample.shape for sample in drawn}) == 1
                return [TensorListCPU(np.stack(drawn) if same_shape else drawn)]
            return [TensorListCPU(convert(drawn, dtype))]
        samples = [
            convert(draw(generator, (1, *own), slice(index, index + 1))[0], dtype)
            for index, (generator, own) in enumerate(zip(batch.sample_generators(self.node), shapes, strict=True))
        ]
        return [TensorListCPU(samples if shape is None else np.stack(samples))]

    def _has_shapes(self, inputs: Sequence[Any]) -> bool:
        """Return whether each sample has its own shape, and thus its own generator."""
        return len(inputs) > self.shape_like or "shape" in self.node.argument_inputs

    def _prepare(self, batch: Batch, inputs: Sequence[Any]) -> _Prepared:
        arguments = batch.arguments(self.node)
        dtype, shapes = self.dtype(arguments, inputs), self._shapes(arguments, inputs) or [()] * batch.size
        shape = shapes[0] if shapes.count(shapes[0]) == len(shapes) else None
        return dtype, shape, shapes, self.prepare(arguments, inputs, batch.size, dtype)

    def dtype(self, arguments: Arguments, inputs: Sequence[Any]) -> np.dtype[Any]:
        """Return the dtype of the output."""
        chosen = arguments.constant("dtype")  # UINT8 is 0, so compare with None
        return to_numpy_type(self.default_dtype if chosen is None else chosen)

    @abstractmethod
    def prepare(self, arguments: Arguments, inputs: Sequence[Any], size: int, dtype: np.dtype[Any]) -> Any:
        """Read the arguments of a batch.

        Returns:
            Function that draws numbers. Its arguments are a generator, a shape that begins with the number of samples,
            and the slice of the batch that these samples are.

        Raises:
            ArgumentValueError: an argument is out of range.
        """

    def _shapes(self, arguments: Arguments, inputs: Sequence[Any]) -> list[tuple[int, ...]] | None:
        rows = arguments.optional(arguments.rows, "shape", np.int64)
        if len(inputs) > self.shape_like:
            if rows is not None:
                raise ArgumentValueError('Providing argument "shape" is incompatible with providing a shape-like input')
            return inputs[self.shape_like].shape()
        if rows is None:
            return None
        extents = [row.tolist() for row in (rows if arguments.per_sample("shape") else rows[:1])]
        if any(extent < 0 for row in extents for extent in row):
            raise ArgumentValueError("argument 'shape' must not be negative")
        return [tuple(row) for row in extents] * (len(rows) // len(extents))


class TransformedCpu(DistributionCpu):
    """Computes each number from one uniform number, so that the CPU and the GPU can draw the same in any order."""

    @abstractmethod
    def distribution(self, arguments: Arguments, dtype: np.dtype[Any]) -> Distribution:
        """Read the parameters of a batch.

        Raises:
            ArgumentValueError: an argument is out of range.
        """

    def prepare(self, arguments: Arguments, inputs: Sequence[Any], size: int, dtype: np.dtype[Any]) -> Any:
        distribution = self.distribution(arguments, dtype)

        def draw(generator: np.random.Generator, shape: tuple[int, ...], samples: slice) -> Array:
            return _transform(generator.random(shape), distribution, samples)

        return draw

    def number_draw(self) -> NumberDraw | None:
        """Return the numbers that `JointDraws` may draw; None if the operator must run alone."""
        node = self.node
        if node.inputs or node.argument_inputs or node.branch or RANDOM_STATE.name in node.arguments:
            return None
        arguments = Arguments(node, {}, 1)
        try:
            (shape,) = self._shapes(arguments, ()) or [()]
            dtype = self.dtype(arguments, ())
            distribution = self.distribution(arguments, dtype)
        except PipelineError:  # `run` reports it
            return None
        is_listed = distribution.kind in (Distribution.LISTED, Distribution.COIN)
        values = distribution.lists[0] if is_listed else np.empty(0, np.float32)
        fits = dtype.itemsize == 4 if is_listed else dtype == np.float32
        return NumberDraw(distribution, shape, convert(values, dtype)) if fits else None


class TransformedGpu(TransformedCpu, GpuOperator):
    """Draws the same numbers on the GPU.

    The CPU draws float16 numbers, because the GPU rounds them twice, and those of samples with different numbers of
    dimensions.
    """

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._planned = ArgumentCache(node, lambda batch: self._plan(batch, ()))

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        dtype, shapes, distribution = self._plan(batch, inputs) if inputs else self._planned.get(batch)
        if shapes is None:
            (drawn,) = super().run(batch, inputs)
            return [upload(batch, drawn)]
        output, target = allocate(shapes, dtype)
        starts = batch.sample_starts(self.node) if self._has_shapes(inputs) else None
        self.launch(plan_draws(target, batch.random_numbers(self.node), distribution, starts), batch)
        return [output]

    def seed_scalars(self, batch: Batch) -> tuple[np.generic, ...]:
        """Return the scalars of the launch, which determine the random numbers."""
        return draw_scalars(batch.random_numbers(self.node))

    def _plan(self, batch: Batch, inputs: Sequence[Any]) -> tuple[np.dtype[Any], Array | None, Distribution]:
        """Return the dtype, the shapes (N, ndim), and the distribution; no shapes if the CPU must draw the numbers."""
        arguments = batch.arguments(self.node)
        dtype = self.dtype(arguments, inputs)
        shapes = self._shapes(arguments, inputs) or [()] * batch.size
        distribution = self.distribution(arguments, dtype)
        if dtype == np.float16 or len(set(map(len, shapes))) > 1 or batch.size > MAX_SAMPLES:
            return dtype, None, distribution
        return dtype, np.array(shapes, np.int64).reshape(batch.size, -1), distribution


def column(values: Array, ndim: int) -> Array:
    """Return values, one per sample, with trailing dimensions of extent 1 up to a number of dimensions."""
    return values.reshape(values.shape + (1,) * (ndim - 1))


def rows_of(arguments: Arguments, name: str, length: int = 1) -> Array:
    """Return the vectors of an argument with a default: one for all samples if it is constant, else one per sample."""
    rows = arguments.vectors(name, length)
    return rows if arguments.per_sample(name) else rows[:1]


def _transform(numbers: Array, distribution: Distribution, samples: slice) -> Array:
    """Return the numbers of a distribution for uniform ones, (samples, ...), which may be overwritten."""

    def of_samples(values: Array) -> Array:
        return column(values[samples] if len(values) > 1 else values, numbers.ndim)

    kind, low, extent = distribution.kind, of_samples(distribution.low), of_samples(distribution.range)
    if kind == Distribution.COIN:
        return numbers < low
    if kind == Distribution.LISTED:
        lists = distribution.lists
        chosen = (numbers * of_samples(distribution.lengths)).astype(np.int64)
        flat = chosen.reshape(len(chosen), -1)
        drawn: Array = lists[0][flat] if len(lists) == 1 else np.take_along_axis(lists[samples], flat, axis=1)
        return drawn.reshape(chosen.shape)
    if kind == Distribution.NORMAL:
        normal_quantiles(numbers)
    numbers *= extent
    numbers += low
    if kind == Distribution.UNIFORM:
        np.minimum(numbers, of_samples(distribution.limit), out=numbers)
    return numbers
