"""Samples that are all one value, or the same in every batch: full, zeros, ones, and those like other samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import Argument, Input, Kind, OperatorSchema
from pipeline._graph.graph import Edge, GraphNode
from pipeline._imaging import convert
from pipeline._listing import listed
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.operator import BatchOperator, Setup
from pipeline._operators.arrays.constant_value import ConstantCpu, ConstantGpu
from pipeline.errors import ArgumentValueError
from pipeline.tensors.cpu import Array, TensorListCPU
from pipeline.types import FLOAT, INT32, to_numpy_type

__all__ = ["CONSTANT", "FULL", "FULL_LIKE", "ONES", "ONES_LIKE", "ZEROS", "ZEROS_LIKE"]

_SHAPE = Argument("shape", Kind.INTS, "Shape of the samples; scalars by default.", (), per_sample=True)
_LAYOUT = Argument("layout", Kind.LAYOUT, "Layout of the samples.")
_FILL = Input("fill_value", "Values that broadcast to the samples.")
_LIKE = Input("data_like", "Samples whose shape, dtype and layout count.")


def _plain(name: str) -> OperatorSchema:
    dtype = Argument("dtype", Kind.DTYPE, "Dtype of the samples.", INT32)
    return register(OperatorSchema(name, f"Makes samples of {name}.", (), (_SHAPE, dtype, _LAYOUT)))


def _like(name: str) -> OperatorSchema:
    dtype = Argument("dtype", Kind.DTYPE, "Dtype of the samples, instead.")
    return register(OperatorSchema(f"{name}_like", f"Makes samples of {name} like others.", (_LIKE,), (dtype,)))


ZEROS, ONES, ZEROS_LIKE, ONES_LIKE = _plain("zeros"), _plain("ones"), _like("zeros"), _like("ones")
FULL = register(OperatorSchema("full", "Makes samples that are filled with values.", (_FILL,), (_SHAPE, _LAYOUT)))
FULL_LIKE = register(
    OperatorSchema("full_like", "Makes samples like others that are filled with values.", (_LIKE, _FILL))
)
CONSTANT = register(
    OperatorSchema(
        name="constant",
        doc="Makes samples that are the same in every batch; a plain number or array does too, as any input.",
        arguments=(
            Argument("fdata", Kind.FLOATS, "The values: one for all elements, or one each."),
            Argument("idata", Kind.INTS, "Integer values instead."),
            Argument("shape", Kind.INTS, "Shape of the samples; 1-D by default."),
            Argument("dtype", Kind.DTYPE, "Dtype of the samples; FLOAT of `fdata` and INT32 of `idata` by default."),
            _LAYOUT,
        ),
        devices=("cpu", "gpu"),
    )
)


def _check_layout(layout: str, ndim: int) -> str:
    if len(layout) not in (0, ndim):
        raise ArgumentValueError(f"the layout {layout!r} doesn't fit a shape of {ndim} dimensions")
    return layout


class _Filling(BatchOperator):
    """Writes one batch, dense where its shapes agree."""

    def fill(
        self,
        batch: Batch,
        shapes: Sequence[tuple[int, ...]],
        dtype: np.dtype[Any],
        layout: str,
        values: Sequence[Array],
    ) -> list[TensorListCPU]:
        """Return a batch of these shapes, to which the values broadcast.

        Raises:
            ArgumentValueError: for shapes that make no batch, and values that don't fit.
        """
        if any(extent < 0 for shape in shapes for extent in shape):
            raise ArgumentValueError(f"a shape can't be negative: {listed([list(shape) for shape in shapes])}")
        owner: Any = None
        samples: Any = [np.empty(0)] * batch.size
        dense = len(set(shapes)) == 1
        if dense:
            samples, owner = batch.allocate(Edge(self.node.index), (batch.size, *shapes[0]), dtype)
        if dense and all(value is values[0] for value in values):
            samples[...] = convert(_broadcast(values[0], shapes[0]), dtype)
        else:
            for sample, (shape, value) in enumerate(zip(shapes, values, strict=True)):
                samples[sample] = convert(_broadcast(value, shape), dtype)
        made = TensorListCPU(samples, _check_layout(layout, len(shapes[0])))
        made.owner = owner
        return [made]

    def shapes(self, batch: Batch) -> list[tuple[int, ...]]:
        """Return the shapes that the argument gives."""
        rows = batch.arguments(self.node).rows("shape", np.int64)
        assert rows is not None
        return [tuple(row.tolist()) for row in rows]


def _broadcast(value: Array, shape: tuple[int, ...]) -> Array:
    extra = max(0, value.ndim - len(shape))  # NumPy refuses more dimensions than the result has
    try:
        return np.broadcast_to(value.reshape(value.shape[extra:]), shape)
    except ValueError:
        raise ArgumentValueError(f"values of shape {value.shape} don't broadcast to {shape}") from None


@implements(ZEROS, "cpu")
@implements(ONES, "cpu")
class Plain(_Filling):
    """Zeros or ones."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        value = np.array(self.node.operator == ONES.name)
        dtype = to_numpy_type(self.node.argument("dtype"))
        return self.fill(batch, self.shapes(batch), dtype, self.node.argument("layout") or "", [value] * batch.size)


@implements(FULL, "cpu")
class Full(_Filling):
    """Values of an input."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        (values,) = inputs
        dtype = to_numpy_type(values.dtype)
        return self.fill(batch, self.shapes(batch), dtype, self.node.argument("layout") or "", values.samples)


@implements(ZEROS_LIKE, "cpu")
@implements(ONES_LIKE, "cpu")
@implements(FULL_LIKE, "cpu")
class Like(_Filling):
    """Shape, dtype and layout of an input; of its contents nothing is looked at."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        data = inputs[0]
        values = inputs[1].samples if len(inputs) > 1 else [np.array(self.node.operator == ONES_LIKE.name)] * batch.size
        wanted = self.node.argument("dtype")
        dtype = to_numpy_type(data.dtype if wanted is None else wanted)
        return self.fill(batch, data.shape(), dtype, data.layout(), values)


def _constant(node: GraphNode) -> Array:
    reals, integers = node.argument("fdata"), node.argument("idata")
    if (reals is None) == (integers is None):
        raise ArgumentValueError("one of the arguments 'fdata' and 'idata' is required, but not both")
    values = np.array(reals, np.float32) if integers is None else np.array(integers, np.int64)
    wanted = node.argument("dtype")  # UINT8 is 0
    if wanted is None:
        wanted = FLOAT if integers is None else INT32
    values = convert(values, to_numpy_type(wanted))
    shape = values.shape if node.argument("shape") is None else tuple(node.argument("shape"))
    _check_layout(node.argument("layout") or "", len(shape))
    if values.size not in (1, np.prod(shape, dtype=np.int64)) or any(extent < 0 for extent in shape):
        raise ArgumentValueError(f"{values.size} values can't fill the shape {shape}")
    return np.full(shape, values[0]) if values.size == 1 else values.reshape(shape)


@implements(CONSTANT, "cpu")
class MadeConstantCpu(ConstantCpu):
    """One array, seen as many times as the batch has samples."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup, _constant(node))


@implements(CONSTANT, "gpu")
class MadeConstantGpu(ConstantGpu):
    """One array on the GPU, uploaded once."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup, _constant(node))
