"""`squeeze`: samples without dimensions of extent 1."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dali_proxy.pipeline._declaration import Argument, Kind, declare_operator
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.axes import axes_by_name, check_axes
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operators.arrays.views import DATA, SampleViews, returns_views
from dali_proxy.pipeline.errors import ArgumentValueError

SQUEEZE = declare_operator(
    name="squeeze",
    doc="Removes dimensions of extent 1.",
    inputs=(DATA,),
    arguments=(
        Argument("axes", Kind.INTS, "Indices of the dimensions to remove; negative ones count from the end."),
        Argument("axis_names", Kind.STRING, "Layout letters of the dimensions to remove, instead of `axes`."),
    ),
    devices=("cpu", "gpu"),
)


@returns_views(SQUEEZE)
class _Squeezed(SampleViews):
    """Shapes without the chosen dimensions."""

    def __init__(self, node: GraphNode, batch: Batch, layout: str) -> None:
        super().__init__(node, batch, layout)
        axes, names = node.argument("axes"), node.argument("axis_names")
        if axes is None and names is None:
            raise ArgumentValueError("Missing argument ``axes`` or ``axis_names``.")
        if axes is not None and names is not None:
            raise ArgumentValueError("the arguments ``axes`` and ``axis_names`` are mutually exclusive")
        self._axes: tuple[int, ...] = axes if names is None else axes_by_name(names, layout)

    def shape(self, sample: int, extents: Sequence[int], itemsize: int, new_itemsize: int) -> list[int]:
        removed = check_axes(self._axes, len(extents))
        rest = [extent for axis, extent in enumerate(extents) if axis not in removed]
        if math.prod(rest) != math.prod(extents):
            raise ArgumentValueError(
                "The volume of the new shape should match the one of the original shape, but the axes "
                f"{list(removed)} of shape {tuple(extents)} don't all have extent 1"
            )
        return rest

    def layout(self, ndim: int) -> str:
        removed = check_axes(self._axes, len(self._layout)) if self._layout else ()
        return "".join(letter for axis, letter in enumerate(self._layout) if axis not in removed)
