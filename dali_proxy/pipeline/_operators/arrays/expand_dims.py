"""`expand_dims`: samples with new dimensions of extent 1."""

from __future__ import annotations

from collections.abc import Sequence

from dali_proxy.pipeline._declaration import REQUIRED, Argument, Kind, declare_operator
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operators.arrays.views import DATA, SampleViews, returns_views
from dali_proxy.pipeline.errors import ArgumentValueError

EXPAND_DIMS = declare_operator(
    name="expand_dims",
    doc="Adds dimensions of extent 1.",
    inputs=(DATA,),
    arguments=(
        Argument("axes", Kind.INTS, "Indices of the new dimensions in the output.", REQUIRED),
        Argument("new_axis_names", Kind.STRING, "Their layout letters; without them the output has no layout.", ""),
    ),
    devices=("cpu", "gpu"),
)


@returns_views(EXPAND_DIMS)
class _Expanded(SampleViews):
    """Shapes with the new dimensions."""

    def __init__(self, node: GraphNode, batch: Batch, layout: str) -> None:
        super().__init__(node, batch, layout)
        axes, self._names = node.argument("axes"), node.argument("new_axis_names")
        if any(axis < 0 for axis in axes):
            raise ArgumentValueError(f"Axis value can't be negative: {list(axes)}")
        if len(set(axes)) < len(axes):
            raise ArgumentValueError(f"Duplicate axis index found: {list(axes)}")
        if self._names and len(self._names) != len(axes):
            raise ArgumentValueError(
                f"Specified {len(axes)} new dimensions, but layout contains {len(self._names)} new dimension names"
            )
        self._new_axes = sorted(zip(axes, self._names or " " * len(axes), strict=True))

    def shape(self, sample: int, extents: Sequence[int], itemsize: int, new_itemsize: int) -> list[int]:
        shape = list(extents)
        for axis, _ in self._new_axes:
            if axis > len(shape):
                raise ArgumentValueError(
                    f"Data has not enough dimensions to add new axes at specified indices: axis {axis} for samples of "
                    f"{len(extents)} dimensions"
                )
            shape.insert(axis, 1)
        return shape

    def layout(self, ndim: int) -> str:
        if not self._new_axes:
            return self._layout
        if not self._names:
            return ""
        if not self._layout and ndim > len(self._new_axes):
            raise ArgumentValueError(
                "argument 'new_axis_names' extends the layout of the input, but it has no layout: give it "
                "one with reinterpret(..., layout=), or leave 'new_axis_names' out"
            )
        letters = list(self._layout)
        for axis, letter in self._new_axes:
            letters.insert(axis, letter)
        return "".join(letters)
