"""One-hot codes of class numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import Argument, Input, Kind, OperatorSchema
from pipeline._graph.graph import Edge, GraphNode
from pipeline._imaging import convert
from pipeline._kernels import Samples, one_hot
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.gpu_operator import GpuOperator, allocate, samples_of
from pipeline._operator_api.operator import BatchOperator
from pipeline._operators.geometry.pad import fill_in_units
from pipeline.errors import ArgumentValueError
from pipeline.tensors.cpu import Array, TensorListCPU
from pipeline.types import FLOAT, to_numpy_type

__all__ = ["ONE_HOT"]

#: Bytes of a batch that is encoded at once.
_SMALL = 1 << 20

ONE_HOT = register(
    OperatorSchema(
        name="one_hot",
        doc="""Encodes class numbers: an axis of `num_classes` elements is added, of which one is `on_value`.

Where every sample of a batch has a single element and `axis` isn't given, samples count as scalars.""",
        inputs=(Input("data", "Class numbers, of any shape; real ones are cut off."),),
        arguments=(
            Argument("num_classes", Kind.INT, "Elements of the new axis.", 0),
            Argument("axis", Kind.INT, "Where the new axis stands; behind all others by default.", -1),
            Argument("axis_name", Kind.STRING, "Letter of the new axis; without it the output has no layout."),
            Argument("dtype", Kind.DTYPE, "Dtype of the output.", FLOAT),
            Argument("on_value", Kind.FLOAT, "What stands at the class's place.", 1.0),
            Argument("off_value", Kind.FLOAT, "What stands elsewhere.", 0.0),
        ),
        devices=("cpu", "gpu"),
    )
)


@dataclass(frozen=True)
class _Coding:
    """How a batch is encoded.

    Attributes:
        scalar: samples of one element each are seen as scalars.
        axis: the new one, from 0.
        layout: of the output.
        classes: how many there are.
        dtype: of the output.
        values: what stands at a class's place, and elsewhere, in units of the dtype.
    """

    scalar: bool
    axis: int
    layout: str
    classes: int
    dtype: np.dtype[Any]
    values: tuple[float, float]

    @classmethod
    def of(cls, node: GraphNode, data: Any) -> _Coding:
        axis, classes, name = node.argument("axis"), node.argument("num_classes"), node.argument("axis_name")
        scalar = "axis" not in node.arguments and all(math.prod(shape) == 1 for shape in data.shape())
        ndim = 0 if scalar else data.ndim
        if not -1 <= axis <= ndim:
            raise ArgumentValueError(f"argument 'axis' must be from -1 to {ndim}, not {axis}")
        if classes < 0:
            raise ArgumentValueError(f"argument 'num_classes' can't be negative: {classes}")
        axis = ndim if axis == -1 else axis
        layout = ""
        if name is not None:
            if len(name) != 1:
                raise ArgumentValueError(f"argument 'axis_name' must be one letter, not {name!r}")
            old = "" if scalar else data.layout()
            if len(old) != ndim:
                raise ArgumentValueError("argument 'axis_name' needs an input with a layout, whose layout it extends")
            layout = old[:axis] + name + old[axis:]
        dtype = to_numpy_type(node.argument("dtype"))
        values = fill_in_units(np.array([node.argument("on_value"), node.argument("off_value")]), dtype)
        return cls(scalar, axis, layout, classes, dtype, (float(values[0]), float(values[1])))

    def shape(self, shape: Sequence[int]) -> list[int]:
        old = [] if self.scalar else list(shape)
        return [*old[: self.axis], self.classes, *old[self.axis :]]

    def encode(self, sample: Array) -> Array:
        numbers = sample.reshape(()) if self.scalar else sample
        if numbers.dtype.kind == "f":
            numbers = np.trunc(numbers)
        counter = np.arange(self.classes).reshape(-1, *[1] * (numbers.ndim - self.axis))
        on, off = convert(np.array(self.values), self.dtype)
        made: Array = np.where(np.expand_dims(numbers, self.axis) == counter, on, off)
        return made


@implements(ONE_HOT, "cpu")
class OneHotCpu(BatchOperator):
    """A comparison a sample; needs the whole batch, to know whether all of it has one element a sample."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        (data,) = inputs
        coding = _Coding.of(self.node, data)
        shapes = [tuple(coding.shape(shape)) for shape in data.shape()]
        owner: Any = None
        made: Any = [np.empty(0)] * batch.size
        if len(set(shapes)) == 1:
            made, owner = batch.allocate(Edge(self.node.index), (batch.size, *shapes[0]), coding.dtype)
        if not isinstance(made, list) and made.nbytes <= _SMALL:
            numbers = np.stack(data.samples)
            whole = replace(coding, axis=coding.axis + 1, scalar=False)
            made[...] = whole.encode(numbers.reshape(batch.size) if coding.scalar else numbers)
        else:
            for sample, numbers in enumerate(data.samples):
                made[sample] = coding.encode(np.asarray(numbers))
        output = TensorListCPU(made, coding.layout)
        output.owner = owner
        return [output]


@implements(ONE_HOT, "gpu")
class OneHotGpu(GpuOperator):
    """One launch a batch."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        data = self.contiguous(inputs[0], batch.stream)
        coding = _Coding.of(self.node, data)
        source = samples_of(data)
        if source.dtype == np.float16:
            raise ArgumentValueError("the samples can't be FLOAT16: use fn.cast")
        if coding.scalar:
            none = np.zeros((len(source), 0), np.int64)
            source = Samples(source.pointers, none, none, source.dtype)
        shapes = np.array([coding.shape(row) for row in source.shapes.tolist()], np.int64)
        made, target = allocate(shapes, coding.dtype, coding.layout)
        one_hot(self.kernels, batch.stream, source, target, coding.axis, *coding.values)
        return [made]
