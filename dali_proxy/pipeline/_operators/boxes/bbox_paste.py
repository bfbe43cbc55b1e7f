"""Moves boxes with images that are pasted onto larger canvases."""

from __future__ import annotations

import numpy as np

from dali_proxy.pipeline._declaration import REQUIRED, Argument, Input, Kind, declare_operator
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operators.boxes.linear_maps import BoxMaps, maps_points
from dali_proxy.pipeline.errors import ArgumentValueError

BBOX_PASTE = declare_operator(
    name="bbox_paste",
    doc="""Computes the boxes of images that `fn.paste` places on larger canvases.

Coordinates are relative to the image, and in the output to the canvas.""",
    inputs=(Input("boxes", "FLOAT, of shape (..., 4): x, y, width, height, or left, top, right, bottom."),),
    arguments=(
        Argument("ratio", Kind.FLOAT, "Ratio of the canvas' extents to the image's.", REQUIRED, per_sample=True),
        Argument("paste_x", Kind.FLOAT, "Horizontal position, from 0 (left) to 1 (right).", 0.5, per_sample=True),
        Argument("paste_y", Kind.FLOAT, "Vertical position, from 0 (top) to 1 (bottom).", 0.5, per_sample=True),
        Argument("ltrb", Kind.BOOL, "Boxes are left, top, right, bottom.", False),
    ),
)


@maps_points(BBOX_PASTE)
class _Pastes(BoxMaps):
    """Maps of pasted boxes."""

    def __init__(self, batch: Batch, node: GraphNode) -> None:
        super().__init__(batch, node)
        ratio = self.arguments.scalars("ratio")
        if not (ratio > 0).all():
            raise ArgumentValueError(f"argument 'ratio' must be positive, not {ratio.min():g}")
        factors = (1 / ratio)[:, None]
        start = np.stack([self.arguments.scalars("paste_x"), self.arguments.scalars("paste_y")], axis=1) * (1 - factors)
        offsets = np.concatenate([start, start if node.argument("ltrb") else np.zeros_like(start)], axis=1)
        self.matrices = np.eye(4, dtype=np.float32) * factors[..., None].astype(np.float32)
        self.offsets = offsets.astype(np.float32)
