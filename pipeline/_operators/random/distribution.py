"""The base of the random operators: shapes, dtypes and the order in which numbers are drawn."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeline._declaration.registry import register
from pipeline._declaration.schema import RANDOM_STATE, Argument, Input, Kind, OperatorSchema
from pipeline._graph.graph import GraphNode
from pipeline._imaging import convert
from pipeline._operator_api.arguments import Arguments
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.joint_draws import NumberDraw
from pipeline._operator_api.memoize import ArgumentCache
from pipeline._operator_api.operator import BatchOperator, Setup
from pipeline._operator_api.upload import upload
from pipeline.errors import ArgumentValueError, PipelineError
from pipeline.tensors.cpu import Array, TensorListCPU
from pipeline.types import DALIDataType, to_numpy_type

__all__ = ["SHAPE", "SHAPE_LIKE", "DistributionCpu", "DistributionGpu", "column", "declare"]

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
    if gpu:
        doc += "\n\nThe GPU version returns the same numbers."
    dtype = Argument("dtype", Kind.DTYPE, f"Dtype of the output: {dtypes}. Numbers are rounded and clamped to it.")
    devices = ("cpu", "gpu") if gpu else ("cpu",)
    return register(
        OperatorSchema(f"random.{name}", doc, (SHAPE_LIKE,), (*arguments, SHAPE, dtype), devices, random=True)
    )


#: The dtype, the shape of all samples or None, the shape of each sample, and the result of `prepare`.
_Prepared = tuple[np.dtype[Any], tuple[int, ...] | None, Sequence[tuple[int, ...]], Any]


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

    def number_draw(self) -> NumberDraw | None:
        """Return the numbers that `JointDraws` may draw; None if the operator must run alone."""
        node = self.node
        if node.inputs or node.argument_inputs or node.branch or RANDOM_STATE.name in node.arguments:
            return None
        arguments = Arguments(node, {}, 1)
        try:
            (shape,) = self._shapes(arguments, ()) or [()]
            return self.constant_draw(arguments, shape, self.dtype(arguments, ()))
        except PipelineError:  # `run` reports it
            return None

    def constant_draw(self, arguments: Arguments, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NumberDraw | None:
        """Return what `number_draw` returns for constant arguments."""
        return None

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
        rows = arguments.rows("shape", np.int64)
        if len(inputs) > self.shape_like:
            if rows is not None:
                raise ArgumentValueError('Providing argument "shape" is incompatible with providing a shape-like input')
            shapes: list[tuple[int, ...]] = inputs[self.shape_like].shape()
            return shapes
        if rows is None:
            return None
        extents = [row.tolist() for row in (rows if arguments.per_sample("shape") else rows[:1])]
        if any(extent < 0 for row in extents for extent in row):
            raise ArgumentValueError("argument 'shape' must not be negative")
        return [tuple(row) for row in extents] * (len(rows) // len(extents))


class DistributionGpu(DistributionCpu):
    """Draws numbers on the CPU and copies them to the GPU."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        (drawn,) = super().run(batch, inputs)
        return [upload(batch, drawn)]


def column(values: Array, ndim: int) -> Array:
    """Return values, one per sample, with trailing dimensions of extent 1 up to a number of dimensions."""
    return values.reshape(values.shape + (1,) * (ndim - 1))
