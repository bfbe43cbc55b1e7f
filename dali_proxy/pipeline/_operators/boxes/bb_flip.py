"""Mirrors bounding boxes."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np

from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operators.boxes.linear_maps import BoxMaps, maps_points
from dali_proxy.pipeline.tensors.cpu import Array

BB_FLIP = declare_operator(
    name="bb_flip",
    doc="Mirrors boxes whose coordinates are relative to the image, from 0 to 1.",
    inputs=(Input("boxes", "FLOAT, of shape (..., 4): x, y, width, height, or left, top, right, bottom."),),
    arguments=(
        Argument("horizontal", Kind.INT, "Nonzero mirrors x.", 1, per_sample=True),
        Argument("vertical", Kind.INT, "Nonzero mirrors y.", 0, per_sample=True),
        Argument("ltrb", Kind.BOOL, "Boxes are left, top, right, bottom.", False),
    ),
    devices=("cpu", "gpu"),
)

# Coordinates beyond this are in pixels. Parts of images have boxes that extend beyond them, and -1 may fill up a batch.
_FAR = 4.0


@cache
def _all_flips(ltrb: bool) -> tuple[Array, Array]:
    """Return the matrices and offsets of no flip, a horizontal one, a vertical one, and both, each as one value."""
    matrices, offsets = np.tile(np.eye(4, dtype=np.float32), (4, 1, 1)), np.zeros((4, 4), np.float32)
    for axis, flips in enumerate(([1, 3], [2, 3])):
        low, high = axis, axis + 2
        offsets[flips, low] = 1
        matrices[flips, low, high] = -1
        matrices[flips, low, low] = -1
        if ltrb:
            matrices[flips, low, low] = matrices[flips, high, high] = 0
            matrices[flips, high, low] = -1
            offsets[flips, high] = 1
    return np.ndarray(4, "V64", matrices), np.ndarray(4, "V16", offsets)


@maps_points(BB_FLIP)
class _BoxFlips(BoxMaps):
    """Maps of mirrored boxes."""

    def __init__(self, batch: Batch, node: GraphNode) -> None:
        super().__init__(batch, node)
        matrices, offsets = _all_flips(bool(node.argument("ltrb")))
        flips = (self.arguments.scalars("horizontal") != 0) + 2 * (self.arguments.scalars("vertical") != 0)
        self.matrices = np.ndarray((len(flips), 4, 4), np.float32, matrices[flips])
        self.offsets = np.ndarray((len(flips), 4), np.float32, offsets[flips])

    def check(self, mapped: Array) -> None:
        """Warn of boxes in pixels."""
        if mapped.size and (mapped.min() < -_FAR or mapped.max() > _FAR):
            warnings.warn(
                "fn.bb_flip: boxes lie far outside of the image; coordinates must be relative to it, from 0 to 1. "
                "Divide boxes in pixels by its width and height",
                stacklevel=2,
            )
