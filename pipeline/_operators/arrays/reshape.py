"""Other shapes, dtypes and layouts for the same bytes: reshape, reinterpret, squeeze, expand_dims."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import REQUIRED, Argument, Input, Kind, OperatorSchema
from pipeline._graph.graph import GraphNode
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.gpu_operator import GpuOperator, fail
from pipeline._operator_api.operator import BatchOperator
from pipeline._operators.arrays.axes import axes_by_name, check_axes
from pipeline._operators.arrays.reshape_arguments import SHAPE_ARGUMENTS, SHAPE_INPUT, Shapes
from pipeline.errors import ArgumentValueError, PipelineError
from pipeline.types import to_numpy_type

__all__ = ["EXPAND_DIMS", "REINTERPRET", "RESHAPE", "SQUEEZE"]

_DATA = Input("data", "Samples of any shape.")

RESHAPE = register(
    OperatorSchema(
        name="reshape",
        doc="Gives samples another shape and layout; their elements stay in the same order.",
        inputs=(_DATA, SHAPE_INPUT),
        arguments=SHAPE_ARGUMENTS,
        devices=("cpu", "gpu"),
    )
)
REINTERPRET = register(
    OperatorSchema(
        name="reinterpret",
        doc="Reads the bytes of samples as another dtype, and gives them another shape and layout.",
        inputs=(_DATA, SHAPE_INPUT),
        arguments=(
            Argument("dtype", Kind.DTYPE, "Dtype of the output. The last extent changes, unless a shape is given."),
            *SHAPE_ARGUMENTS,
        ),
        devices=("cpu", "gpu"),
    )
)
SQUEEZE = register(
    OperatorSchema(
        name="squeeze",
        doc="Removes dimensions of extent 1.",
        inputs=(_DATA,),
        arguments=(
            Argument("axes", Kind.INTS, "Numbers of the dimensions; negative ones count from the end."),
            Argument("axis_names", Kind.STRING, "Instead of `axes`: letters of the layout."),
        ),
        devices=("cpu", "gpu"),
    )
)
EXPAND_DIMS = register(
    OperatorSchema(
        name="expand_dims",
        doc="Adds dimensions of extent 1.",
        inputs=(_DATA,),
        arguments=(
            Argument("axes", Kind.INTS, "Where they are in the output.", REQUIRED),
            Argument("new_axis_names", Kind.STRING, "Their letters; without them the output has no layout.", ""),
        ),
        devices=("cpu", "gpu"),
    )
)


class _View(ABC):
    """How the samples of a batch are seen: shapes and layout by the arguments.

    Args:
        node: the operator.
        batch: with its arguments.
        layout: of the samples.
    """

    def __init__(self, node: GraphNode, batch: Batch, layout: str) -> None:
        self._layout = layout

    @abstractmethod
    def shape(self, sample: int, extents: Sequence[int], itemsize: int, new_itemsize: int) -> list[int]:
        """Return the shape of a sample of the output, as `Shapes.of` does."""

    @abstractmethod
    def layout(self, ndim: int) -> str:
        """Return the layout of the output, for its number of dimensions."""


class _Reshaped(_View):
    def __init__(self, node: GraphNode, batch: Batch, layout: str) -> None:
        super().__init__(node, batch, layout)
        self._wanted: str | None = node.argument("layout")
        given = batch.values[node.inputs[1]].as_cpu().samples if len(node.inputs) > 1 else None
        self._shapes = Shapes(node, batch, given)

    def shape(self, sample: int, extents: Sequence[int], itemsize: int, new_itemsize: int) -> list[int]:
        return self._shapes.of(sample, extents, itemsize, new_itemsize)

    def layout(self, ndim: int) -> str:
        if self._wanted is None:
            return self._layout if len(self._layout) == ndim else ""
        if len(self._wanted) not in (0, ndim):
            raise ArgumentValueError(f"the layout {self._wanted!r} doesn't fit a shape of {ndim} dimensions")
        return self._wanted


class _Squeezed(_View):
    def __init__(self, node: GraphNode, batch: Batch, layout: str) -> None:
        super().__init__(node, batch, layout)
        axes, names = node.argument("axes"), node.argument("axis_names")
        if (axes is None) == (names is None):
            raise ArgumentValueError("one of the arguments 'axes' and 'axis_names' is required, but not both")
        self._axes: tuple[int, ...] = axes if names is None else axes_by_name(names, layout)

    def shape(self, sample: int, extents: Sequence[int], itemsize: int, new_itemsize: int) -> list[int]:
        removed = check_axes(self._axes, len(extents))
        rest = [extent for axis, extent in enumerate(extents) if axis not in removed]
        if math.prod(rest) != math.prod(extents):
            raise ArgumentValueError(f"the axes {list(removed)} of shape {tuple(extents)} don't all have extent 1")
        return rest

    def layout(self, ndim: int) -> str:
        removed = check_axes(self._axes, len(self._layout)) if self._layout else ()
        return "".join(letter for axis, letter in enumerate(self._layout) if axis not in removed)


class _Expanded(_View):
    def __init__(self, node: GraphNode, batch: Batch, layout: str) -> None:
        super().__init__(node, batch, layout)
        axes, self._names = node.argument("axes"), node.argument("new_axis_names")
        if any(axis < 0 for axis in axes) or len(set(axes)) < len(axes):
            raise ArgumentValueError(f"argument 'axes' must be different and not negative: {list(axes)}")
        if self._names and len(self._names) != len(axes):
            raise ArgumentValueError(f"argument 'new_axis_names' has {len(self._names)} letters for {len(axes)} axes")
        self._order = sorted(zip(axes, self._names or " " * len(axes), strict=True))

    def shape(self, sample: int, extents: Sequence[int], itemsize: int, new_itemsize: int) -> list[int]:
        made = list(extents)
        for axis, _ in self._order:
            if axis > len(made):
                raise ArgumentValueError(f"axis {axis} is out of range for samples of {len(extents)} dimensions")
            made.insert(axis, 1)
        return made

    def layout(self, ndim: int) -> str:
        if not self._order:
            return self._layout
        if not self._names:
            return ""
        if not self._layout and ndim > len(self._order):
            raise ArgumentValueError("argument 'new_axis_names' needs an input with a layout, whose layout it extends")
        made = list(self._layout)
        for axis, letter in self._order:
            made.insert(axis, letter)
        return "".join(made)


_VIEWS: dict[str, type[_View]] = {
    RESHAPE.name: _Reshaped,
    REINTERPRET.name: _Reshaped,
    SQUEEZE.name: _Squeezed,
    EXPAND_DIMS.name: _Expanded,
}


def _checked_shape(
    view: _View, sample: int, extents: tuple[int, ...], source: np.dtype[Any], dtype: np.dtype[Any]
) -> tuple[int, ...]:
    shape = tuple(view.shape(sample, extents, source.itemsize, dtype.itemsize))
    if math.prod(shape) * dtype.itemsize != math.prod(extents) * source.itemsize:
        raise ArgumentValueError(
            f"a sample of shape {extents} and dtype {source} can't be reinterpreted as one of shape {shape} and dtype "
            f"{dtype}: they have different sizes"
        )
    return shape


def _see(array: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    """Return an array, NumPy's or CuPy's, as another one: a view where its elements lie one after the other."""
    flat = array.reshape(-1)
    return (flat if dtype == array.dtype else flat.view(dtype)).reshape(shape)


class _Seeing(BatchOperator):
    """Makes views of the samples: data is moved only where it isn't contiguous."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        data = inputs[0]
        view = _VIEWS[self.node.operator](self.node, batch, data.layout())
        wanted = self.node.argument("dtype")
        dtype = to_numpy_type(data.dtype if wanted is None else wanted)
        shapes: list[tuple[int, ...]] = []
        failures: list[tuple[int, PipelineError]] = []
        source = to_numpy_type(data.dtype)
        for sample, extents in enumerate(data.shape()):
            try:
                shapes.append(_checked_shape(view, sample, tuple(extents), source, dtype))
            except PipelineError as error:
                failures.append((sample, error))
        fail(failures)
        if len({len(shape) for shape in shapes}) > 1:
            raise ArgumentValueError("the samples of a batch must have the same number of dimensions")
        data = self._contiguous(data, batch)
        made: Any = data.dense
        if made is not None and len(set(shapes)) == 1:
            made = _see(made, dtype, (len(shapes), *shapes[0]))
        else:
            made = [_see(array, dtype, shape) for array, shape in zip(data.samples, shapes, strict=True)]
        return [type(data)(made, view.layout(len(shapes[0])))]

    def _contiguous(self, data: Any, batch: Batch) -> Any:
        return data


@implements(RESHAPE, "cpu")
@implements(REINTERPRET, "cpu")
@implements(SQUEEZE, "cpu")
@implements(EXPAND_DIMS, "cpu")
class SeeingCpu(_Seeing):
    """NumPy copies where it must."""


@implements(RESHAPE, "gpu")
@implements(REINTERPRET, "gpu")
@implements(SQUEEZE, "gpu")
@implements(EXPAND_DIMS, "gpu")
class SeeingGpu(GpuOperator, _Seeing):
    """One launch where samples aren't contiguous."""

    def _contiguous(self, data: Any, batch: Batch) -> Any:
        return self.contiguous(data, batch.stream)
