"""Smooths images by medians."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np

from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.image_axes import IMAGE_LAYOUTS, ImageAxes
from dali_proxy.pipeline._operator_api.layouts import choose_layout
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator
from dali_proxy.pipeline._operator_api.output_specs import describe, layout_and_extents
from dali_proxy.pipeline._operator_api.pixel_operator import PixelOperator
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array

# Arrays that OpenCV filters: bytes with windows of any width, others up to a width of 5.
_MOST_CHANNELS = 4
_OPENCV = (np.uint16, np.int16, np.float32)
_WIDEST = 5

MEDIAN_BLUR = declare_operator(
    name="experimental.median_blur",
    doc="""Replaces each pixel by the median of a rectangle around it, for each channel.

Border pixels are repeated outside of the image.""",
    inputs=(Input("data", f"Images or sequences, of one of the layouts {', '.join(IMAGE_LAYOUTS)}."),),
    arguments=(Argument("window_size", Kind.INTS, "Odd width and height of the rectangle.", (3, 3), per_sample=True),),
    devices=("cpu", "gpu"),
)


def _sizes(node: GraphNode, batch: Batch) -> Array:
    """Return width and height of each sample's rectangle, (N, 2)."""
    sizes = batch.arguments(node).vectors("window_size", 2, np.int64)
    wrong = (sizes < 1) | (sizes % 2 == 0)
    if wrong.any():
        raise ArgumentValueError(f"argument 'window_size' must be odd and positive, not {int(sizes[wrong][0])}")
    return sizes


@dataclass(frozen=True)
class _State:
    axes: ImageAxes
    sizes: Array


@implements(MEDIAN_BLUR, "cpu")
class MedianBlurCpu(SampleOperator[_State]):
    """Runs OpenCV for squares, and NumPy for other rectangles."""

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[_State, Sequence[OutputSpec]]:
        (data,) = inputs
        layout, known = layout_and_extents(batch, self.node, inputs, IMAGE_LAYOUTS)
        axes = ImageAxes.from_layout(layout, len(layout))
        return _State(axes, _sizes(self.node, batch)), [describe(layout, known, data.dtype)]

    def run(self, state: _State, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        (data,) = inputs
        if out is None:
            out = np.empty(data.shape, data.dtype)
        if data.size:
            width, height = state.sizes[sample].tolist()
            for image, target in state.axes.images(data, out):
                np.copyto(target, _median(image, width, height))
        return out


def _median(image: Array, width: int, height: int) -> Array:
    """Return the medians of an image (height, width, channels)."""
    if width == height == 1:
        return image
    small = image.dtype in _OPENCV and width <= _WIDEST
    if width == height and image.shape[2] <= _MOST_CHANNELS and (small or image.dtype == np.uint8):
        return np.asarray(cv2.medianBlur(np.ascontiguousarray(image), width)).reshape(image.shape)
    padded = np.pad(image, ((height // 2, height // 2), (width // 2, width // 2), (0, 0)), mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (height, width), axis=(0, 1))
    values = windows.reshape(*image.shape, height * width)
    middle = height * width // 2
    return np.partition(values, middle, axis=-1)[..., middle]


@implements(MEDIAN_BLUR, "gpu")
class MedianBlurGpu(PixelOperator):
    """Finds the median of each pixel's rectangle by bisection."""

    traits = replace(PixelOperator.traits, planewise=True, gathers=True)

    def express(self, batch: Batch, pixels: PixelExpression) -> PixelExpression | None:
        layout = choose_layout(pixels.layout, pixels.ndim, IMAGE_LAYOUTS)
        return pixels.named(layout).median(_sizes(self.node, batch)[:, ::-1])
