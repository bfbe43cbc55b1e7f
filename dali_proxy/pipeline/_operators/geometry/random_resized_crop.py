"""Crops a random window and resizes it in one step, as for training on ImageNet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from dali_proxy.pipeline._arrays import Int64s
from dali_proxy.pipeline._declaration import REQUIRED, Argument, Input, Kind, declare_operator
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operators.geometry.random_windows import RANDOM_CROP_ARGUMENTS, WINDOW_DRAWS, RandomWindows
from dali_proxy.pipeline._operators.geometry.resize import FILTER_ARGUMENTS, resizes
from dali_proxy.pipeline._operators.geometry.resize_arguments import Geometry, Resized, ResizedBatch, solve_each
from dali_proxy.pipeline.errors import ArgumentValueError, PipelineError

RANDOM_RESIZED_CROP = declare_operator(
    name="random_resized_crop",
    random=True,
    draws=WINDOW_DRAWS,
    doc="""Crops a window of random area and aspect ratio, and resizes it.

Filters read pixels beyond the border of the window if the image continues there. All frames of a sequence have the
same window.""",
    inputs=(Input("data", "Images or sequences, HWC, CHW, FHWC, FCHW or CFHW; HWC without a layout."),),
    arguments=(
        Argument("size", Kind.INTS, "Size of the output in pixels: (height, width), or one number for both.", REQUIRED),
        *RANDOM_CROP_ARGUMENTS,
        *FILTER_ARGUMENTS,
    ),
    devices=("cpu", "gpu"),
)


@resizes(RANDOM_RESIZED_CROP)
class RandomWindowGeometry(Geometry):
    """Random regions, resized to one size (height, width)."""

    drawn: ClassVar[bool] = True

    def __init__(self, windows: RandomWindows, size: tuple[int, int]) -> None:
        self._windows = windows
        self._size = size

    @classmethod
    def from_batch(cls, node: GraphNode, batch: Batch, axes: str) -> RandomWindowGeometry:
        if axes != "HW":
            raise ArgumentValueError(
                "random windows of volumes aren't supported: the layout must have H and W, but no D"
            )
        size = node.argument("size")
        if len(size) not in (1, 2) or min(size) < 1:
            raise ArgumentValueError(f"argument 'size' must be one or two positive numbers of pixels, not {list(size)}")
        return cls(RandomWindows(node, batch), (size[0], size[-1]))

    @property
    def fixed_size(self) -> tuple[int, ...]:
        return self._size

    def solve(self, sample: int, extents: Sequence[int]) -> Resized:
        if 0 in extents:
            raise PipelineError(f"can't resize an empty image of {' x '.join(map(str, extents))}")
        y, x, height, width = self._windows.choose(sample, extents[0], extents[1])
        whole = [height, width] == list(extents)
        return Resized(self._size, (float(y), float(x)), (float(y + height), float(x + width)), whole)

    def solve_all(self, extents: Int64s) -> ResizedBatch:
        if not extents.all():
            return solve_each(self.solve, extents)
        windows = self._windows.choose_all(extents[:, 0], extents[:, 1])
        low, size = windows[:, :2].astype(np.float64), np.empty((len(windows), 2), np.int64)
        size[:] = self._size
        return ResizedBatch(size, low, low + windows[:, 2:])
