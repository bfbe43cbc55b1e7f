"""`reshape`: other shapes and layouts for samples."""

from __future__ import annotations

from collections.abc import Sequence

from dali_proxy.pipeline._declaration import declare_operator
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operators.arrays.reshape_arguments import SHAPE_ARGUMENTS, SHAPE_INPUT, Shapes
from dali_proxy.pipeline._operators.arrays.views import DATA, SampleViews, returns_views
from dali_proxy.pipeline.errors import ArgumentValueError

RESHAPE = declare_operator(
    name="reshape",
    doc="Changes the shape and layout of samples. The order of their elements stays the same.",
    inputs=(DATA, SHAPE_INPUT),
    arguments=SHAPE_ARGUMENTS,
    devices=("cpu", "gpu"),
)


@returns_views(RESHAPE)
class Reshaped(SampleViews):
    """Computes the new shapes and layout from the arguments of `reshape`, or the shapes from its second input."""

    def __init__(self, node: GraphNode, batch: Batch, layout: str) -> None:
        super().__init__(node, batch, layout)
        self._new_layout: str | None = node.argument("layout")
        shapes = batch.values[node.inputs[1]].as_cpu().samples if len(node.inputs) > 1 else None
        self._shapes = Shapes(node, batch, shapes)

    def shape(self, sample: int, extents: Sequence[int], itemsize: int, new_itemsize: int) -> list[int]:
        return self._shapes.shape(sample, extents, itemsize, new_itemsize)

    def layout(self, ndim: int) -> str:
        if self._new_layout is None:
            return self._layout if len(self._layout) == ndim else ""
        if len(self._new_layout) not in (0, ndim):
            hint = "; an encoded image, such as a JPEG, must be decoded first" if ndim == 1 else ""
            raise ArgumentValueError(
                f"Requested layout {self._new_layout!r} is not compatible with a {ndim}D shape{hint}"
            )
        return self._new_layout
