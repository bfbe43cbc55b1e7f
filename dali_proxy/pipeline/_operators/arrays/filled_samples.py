"""`zeros`, `ones`, `full` and their `_like` versions: samples that are filled with values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import Argument, Input, Kind, OperatorSchema, declare_operator, implements
from dali_proxy.pipeline._graph.graph import Edge
from dali_proxy.pipeline._imaging import convert
from dali_proxy.pipeline._listing import listed
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.operator import BatchOperator
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU
from dali_proxy.pipeline.types import INT32, to_numpy_type

SHAPE = Argument("shape", Kind.INTS, "Shape of the samples; scalars by default.", (), per_sample=True)
LAYOUT = Argument("layout", Kind.LAYOUT, "Layout of the samples.")
DATA_LIKE = Input("data_like", "Samples whose shape, dtype and layout the output gets.")
FILL_VALUE = Input("fill_value", "Values that are broadcast to the samples.")

_NUMBERS = {"zeros": 0, "ones": 1}


def _declare(name: str) -> OperatorSchema:
    dtype = Argument("dtype", Kind.DTYPE, "Dtype of the samples.", INT32)
    return declare_operator(name, f"Returns samples of {name}.", (), (SHAPE, dtype, LAYOUT))


def _declare_like(name: str) -> OperatorSchema:
    dtype = Argument("dtype", Kind.DTYPE, "Dtype of the output; by default the input's.")
    doc = f"Returns samples of {name} with the shape, dtype and layout of other samples."
    return declare_operator(f"{name}_like", doc, (DATA_LIKE,), (dtype,))


ZEROS, ONES = map(_declare, _NUMBERS)
ZEROS_LIKE, ONES_LIKE = map(_declare_like, _NUMBERS)
FULL = declare_operator("full", "Returns samples that are filled with given values.", (FILL_VALUE,), (SHAPE, LAYOUT))
FULL_LIKE = declare_operator(
    "full_like",
    "Returns samples with the shape, dtype and layout of other samples, filled with given values.",
    (DATA_LIKE, FILL_VALUE),
)


def check_layout(layout: str, ndim: int) -> str:
    """Return a layout.

    Raises:
        ArgumentValueError: the layout doesn't have a letter for each dimension.
    """
    if len(layout) not in (0, ndim):
        raise ArgumentValueError(
            f"Layout {layout!r} has {len(layout)} dimensions but output shape has {ndim} dimensions."
        )
    return layout


@implements(ZEROS, "cpu")
@implements(ONES, "cpu")
class Filled(BatchOperator):
    """Fills samples with one number."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        rows = batch.arguments(self.node).rows("shape", np.int64)
        shapes = [tuple(row.tolist()) for row in rows]
        return self.fill(batch, shapes, self.dtype(inputs), self.node.argument("layout") or "", inputs)

    def dtype(self, inputs: Sequence[Any]) -> np.dtype[Any]:
        """Return the dtype of the output."""
        return to_numpy_type(self.node.argument("dtype"))

    def values(self, batch: Batch, inputs: Sequence[Any]) -> TensorListCPU:
        """Return an array for each sample that broadcasts to it."""
        number = _NUMBERS[self.node.operator.removesuffix("_like")]
        return TensorListCPU(np.broadcast_to(np.array(number), batch.size))

    def fill(
        self, batch: Batch, shapes: Sequence[tuple[int, ...]], dtype: np.dtype[Any], layout: str, inputs: Sequence[Any]
    ) -> list[TensorListCPU]:
        """Return a batch of filled samples, dense if all shapes are the same.

        Raises:
            ArgumentValueError: a shape is invalid, or values don't broadcast to it.
        """
        values = self.values(batch, inputs)
        distinct = set(shapes)
        if any(extent < 0 for shape in distinct for extent in shape):
            raise ArgumentValueError(f"a shape can't be negative: {listed([list(shape) for shape in shapes])}")
        owner: Any = None
        samples: Any = [np.empty(0)] * batch.size
        dense = len(distinct) == 1
        if dense:
            samples, owner = batch.allocate(Edge(self.node.index), (batch.size, *shapes[0]), dtype)
        array = values.small_array() if dense else None
        if array is not None:
            samples[...] = _broadcast(convert(array, dtype), shapes[0], leading=1)
        else:
            for sample, (shape, value) in enumerate(zip(shapes, values.samples, strict=True)):
                samples[sample] = _broadcast(convert(np.asarray(value), dtype), shape)
        output = TensorListCPU(samples, check_layout(layout, len(shapes[0])))
        output.owner = owner
        return [output]


@implements(ZEROS_LIKE, "cpu")
@implements(ONES_LIKE, "cpu")
class FilledLike(Filled):
    """Fills samples with the shape, dtype and layout of an input, whose contents are not read."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        data = inputs[0]
        chosen = self.node.argument("dtype")
        dtype = to_numpy_type(data.dtype if chosen is None else chosen)
        return self.fill(batch, data.shape(), dtype, data.layout(), inputs)


@implements(FULL, "cpu")
class Full(Filled):
    """Fills samples with the values of an input, in their dtype."""

    def dtype(self, inputs: Sequence[Any]) -> np.dtype[Any]:
        return to_numpy_type(inputs[0].dtype)

    def values(self, batch: Batch, inputs: Sequence[Any]) -> TensorListCPU:
        return inputs[0]


@implements(FULL_LIKE, "cpu")
class FullLike(FilledLike):
    """Fills samples with the values of the second input."""

    def values(self, batch: Batch, inputs: Sequence[Any]) -> TensorListCPU:
        return inputs[1]


def _broadcast(value: Array, shape: tuple[int, ...], leading: int = 0) -> Array:
    """Return values broadcast to a shape; `leading` dimensions before it remain.

    As in DALI, a dimension that the result doesn't have, or in which it has extent 1, gives its first values.
    """
    first, own = value.shape[:leading], value.shape[leading:]
    extra = max(0, len(own) - len(shape))
    kept = tuple(slice(1) if extent == 1 else slice(None) for extent in shape[len(shape) - (len(own) - extra) :])
    missing = (1,) * (len(shape) - len(own))
    try:
        selected = value[(slice(None),) * leading + (0,) * extra + kept]
        return np.broadcast_to(selected.reshape(*first, *missing, *selected.shape[leading:]), (*first, *shape))
    except (IndexError, ValueError):
        raise ArgumentValueError(f"values of shape {own} don't broadcast to {shape}") from None
