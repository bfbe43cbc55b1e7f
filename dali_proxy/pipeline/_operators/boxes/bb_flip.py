"""Mirrors bounding boxes."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operators.boxes.linear_maps import LinearMap, LinearMaps, LinearMapsCpu, LinearMapsGpu
from dali_proxy.pipeline.errors import ArgumentValueError
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


@cache
def _all_flips(ltrb: bool) -> tuple[Array, Array]:
    """Return the matrices and offsets of no flip, a horizontal one, a vertical one, and both."""
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
    return matrices, offsets


class _BoxFlips(LinearMaps):
    """Maps of boxes as points of four coordinates."""

    keeps_shape = True

    def __init__(self, batch: Batch, node: GraphNode) -> None:
        super().__init__(batch, node)
        matrices, offsets = _all_flips(bool(node.argument("ltrb")))
        flips = (self.arguments.scalars("horizontal") != 0) + 2 * (self.arguments.scalars("vertical") != 0)
        self._matrices, self._offsets = matrices[flips], offsets[flips]

    def points(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        count = math.prod(shape)
        if not shape or (shape[-1] != 4 and (len(shape) > 1 or count % 4)):
            raise ArgumentValueError(f"boxes need 4 coordinates, but the sample has shape {shape}")
        return count // 4, 4

    def for_samples(self, samples: slice, shape: tuple[int, ...]) -> LinearMap:
        return LinearMap(self._matrices[samples], self._offsets[samples])


@implements(BB_FLIP, "cpu")
class BoxFlipCpu(LinearMapsCpu):
    """Flips boxes by linear maps."""

    maps = _BoxFlips


@implements(BB_FLIP, "gpu")
class BoxFlipGpu(LinearMapsGpu):
    """Flips boxes by linear maps."""

    maps = _BoxFlips
