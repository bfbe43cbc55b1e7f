"""`one_hot`: one-hot codes of class numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import Edge, GraphNode
from dali_proxy.pipeline._imaging import convert
from dali_proxy.pipeline._kernels import Samples
from dali_proxy.pipeline._kernels.one_hot import plan_one_hot
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import GpuOperator, allocate, samples_of
from dali_proxy.pipeline._operator_api.operator import BatchOperator
from dali_proxy.pipeline._operators.geometry.pad import fill_in_units
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU
from dali_proxy.pipeline.types import FLOAT, to_numpy_type

ONE_HOT = declare_operator(
    name="one_hot",
    doc="""Encodes class numbers. The output has a new axis of `num_classes` elements, one of which is `on_value`.

If all samples of a batch have a single element and `axis` isn't set, they are treated as scalars.""",
    inputs=(Input("data", "Class numbers of any shape; fractions are truncated."),),
    arguments=(
        Argument("num_classes", Kind.INT, "Number of classes, the extent of the new axis.", 0),
        Argument("axis", Kind.INT, "Index of the new axis; by default it is the last one.", -1),
        Argument("axis_name", Kind.STRING, "Layout letter of the new axis; without it the output has no layout."),
        Argument("dtype", Kind.DTYPE, "Dtype of the output.", FLOAT),
        Argument("on_value", Kind.FLOAT, "Value at the index of the class.", 1.0),
        Argument("off_value", Kind.FLOAT, "Value at all other indices.", 0.0),
    ),
    devices=("cpu", "gpu"),
)


@dataclass(frozen=True)
class _Coding:
    """The evaluated arguments for one batch.

    Attributes:
        scalar: whether samples of one element are treated as scalars.
        axis: non-negative index of the new axis.
        layout: layout of the output.
        classes: number of classes.
        dtype: dtype of the output.
        values: values at the index of the class and elsewhere, in units of the dtype.
    """

    scalar: bool
    axis: int
    layout: str
    classes: int
    dtype: np.dtype[Any]
    values: tuple[float, float]

    @classmethod
    def from_arguments(cls, node: GraphNode, data: Any) -> _Coding:
        axis, classes, name = node.argument("axis"), node.argument("num_classes"), node.argument("axis_name")
        scalar = "axis" not in node.arguments and all(math.prod(shape) == 1 for shape in data.shape())
        ndim = 0 if scalar else data.ndim
        if not -1 <= axis <= ndim:
            raise ArgumentValueError(
                f"Provided axis is outside of allowed range, got: {axis}, expected to be in range: [-1, {ndim}]"
            )
        if classes < 0:
            raise ArgumentValueError(f"argument 'num_classes' can't be negative: {classes}")
        axis = ndim if axis == -1 else axis
        layout = ""
        if name is not None:
            if len(name) != 1:
                raise ArgumentValueError(
                    f'Unsupported axis_name value. It must be a single character, got "{name}" instead.'
                )
            old = "" if scalar else data.layout()
            if len(old) != ndim:
                raise ArgumentValueError(
                    "argument 'axis_name' extends the layout of the input, but it has no layout: give it "
                    "one with reinterpret(..., layout=), or leave 'axis_name' out"
                )
            layout = old[:axis] + name + old[axis:]
        dtype = to_numpy_type(node.argument("dtype"))
        values = fill_in_units(np.array([node.argument("on_value"), node.argument("off_value")]), dtype)
        return cls(scalar, axis, layout, classes, dtype, (float(values[0]), float(values[1])))

    def shape(self, shape: Sequence[int]) -> list[int]:
        old = [] if self.scalar else list(shape)
        return [*old[: self.axis], self.classes, *old[self.axis :]]

    def encode(self, samples: Array, out: Array) -> None:
        """Encode samples of one shape, (N, ...), into (N, ...)."""
        numbers = samples.reshape(len(samples)) if self.scalar else samples
        if numbers.dtype.kind == "f":
            numbers = np.trunc(numbers)
        on, off = convert(np.array(self.values), self.dtype)
        out[...] = off
        known = (numbers >= 0) & (numbers < self.classes)
        indices, axis = np.nonzero(known), self.axis + 1
        chosen = (*indices[:axis], numbers[known].astype(np.intp), *indices[axis:])
        out[chosen] = on


@implements(ONE_HOT, "cpu")
class OneHotCpu(BatchOperator):
    """Compares numbers with all classes. It needs the full batch, to check whether all samples have one element."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        (data,) = inputs
        coding = _Coding.from_arguments(self.node, data)
        shapes = [tuple(coding.shape(shape)) for shape in data.shape()]
        owner: Any = None
        result: Any
        if len(set(shapes)) == 1:
            result, owner = batch.allocate(Edge(self.node.index), (batch.size, *shapes[0]), coding.dtype)
        else:
            result = [np.empty(shape, coding.dtype) for shape in shapes]
        numbers = data.small_array()
        if numbers is not None:
            coding.encode(numbers, result)
        else:
            for sample, out in zip(data.samples, result, strict=True):
                coding.encode(np.asarray(sample)[None], out[None])
        output = TensorListCPU(result, coding.layout)
        output.owner = owner
        return [output]


@implements(ONE_HOT, "gpu")
class OneHotGpu(GpuOperator):
    """Encodes a batch with one launch."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        data = self.contiguous(inputs[0], batch.stream)
        coding = _Coding.from_arguments(self.node, data)
        source = samples_of(data)
        if source.dtype == np.float16:
            raise ArgumentValueError("the samples can't be FLOAT16: use fn.cast")
        if coding.scalar:
            none = np.zeros((len(source), 0), np.int64)
            source = Samples(source.pointers, none, none, source.dtype)
        shapes = np.array([coding.shape(row) for row in source.shapes.tolist()], np.int64)
        result, target = allocate(shapes, coding.dtype, coding.layout)
        self.launch(plan_one_hot(source, target, coding.axis, *coding.values), batch)
        return [result]
