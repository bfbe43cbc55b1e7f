"""Dilates and erodes images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np

from dali_proxy.pipeline._declaration import Argument, Input, Kind, OperatorSchema, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._imaging.filter2d import CV2_BORDERS, OPENCV_BORDERS
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.image_axes import IMAGE_LAYOUTS, ImageAxes
from dali_proxy.pipeline._operator_api.layouts import choose_layout
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator
from dali_proxy.pipeline._operator_api.output_dtype import check_samples
from dali_proxy.pipeline._operator_api.output_specs import describe, layout_and_extents
from dali_proxy.pipeline._operator_api.pixel_operator import PixelOperator
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array
from dali_proxy.pipeline.types import FLOAT, FLOAT64, INT16, UINT8, UINT16

_DTYPES = (UINT8, UINT16, INT16, FLOAT, FLOAT64)


def _declare(name: str, extreme: str) -> OperatorSchema:
    return declare_operator(
        name=f"experimental.{name}",
        doc=f"Replaces each pixel by the {extreme} of a rectangle around it, for each channel.",
        inputs=(Input("data", f"Images or sequences, of one of the layouts {', '.join(IMAGE_LAYOUTS)}."),),
        arguments=(
            Argument("mask_size", Kind.INTS, "Width and height of the rectangle.", (3, 3), per_sample=True),
            Argument(
                "anchor",
                Kind.INTS,
                "Column and row of the rectangle that are aligned with the pixel; -1 for the middle.",
                (-1, -1),
                per_sample=True,
            ),
            Argument(
                "border_mode",
                Kind.STRING,
                'Values outside of the image: "constant" ignores pixels outside; "replicate" repeats the border '
                'pixel, "reflect" mirrors the image including it, "reflect_101" without it, and "wrap" continues '
                "at the other side.",
                "constant",
                choices=tuple(OPENCV_BORDERS),
            ),
            Argument("iterations", Kind.INT, "How often to repeat the operation.", 1),
        ),
        devices=("cpu", "gpu"),
    )


DILATE = _declare("dilate", "maximum")
ERODE = _declare("erode", "minimum")


@dataclass(frozen=True)
class _Rectangles:
    """The rectangles of a batch.

    Attributes:
        axes: dimensions of the images.
        sizes: width and height of each sample's rectangle, (N, 2).
        anchors: column and row that are aligned with the pixel, (N, 2).
    """

    axes: ImageAxes
    sizes: Array
    anchors: Array

    @classmethod
    def from_batch(cls, node: GraphNode, batch: Batch, layout: str) -> _Rectangles:
        arguments = batch.arguments(node)
        sizes, anchors = (arguments.vectors(name, 2, np.int64) for name in ("mask_size", "anchor"))
        if (sizes < 1).any():
            raise ArgumentValueError(f"argument 'mask_size' must be positive, not {sizes.min()}")
        anchors = np.where(anchors == -1, sizes // 2, anchors)
        wrong = ((anchors < 0) | (anchors >= sizes)).any(axis=1)
        if wrong.any():
            sample = int(np.argmax(wrong))
            raise ArgumentValueError(
                f"argument 'anchor' {tuple(anchors[sample].tolist())} is outside of the rectangle of size "
                f"{tuple(sizes[sample].tolist())}, for sample {sample}"
            )
        if node.argument("iterations") < 0:
            raise ArgumentValueError(f"argument 'iterations' can't be negative: {node.argument('iterations')}")
        return cls(ImageAxes.from_layout(layout, len(layout)), sizes, anchors)


@implements(DILATE, "cpu")
@implements(ERODE, "cpu")
class MorphologyCpu(SampleOperator[_Rectangles]):
    """Runs OpenCV for each image."""

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[_Rectangles, Sequence[OutputSpec]]:
        (data,) = inputs
        layout, known = layout_and_extents(batch, self.node, inputs, IMAGE_LAYOUTS)
        return _Rectangles.from_batch(self.node, batch, layout), [describe(layout, known, data.dtype)]

    def run(self, state: _Rectangles, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        (data,) = inputs
        check_samples(data.dtype, _DTYPES)
        if out is None:
            out = np.empty(data.shape, data.dtype)
        if not data.size:
            return out
        iterations = self.node.argument("iterations")
        width, height = state.sizes[sample].tolist()
        column, row = state.anchors[sample].tolist()
        window = np.ones((height, width), np.uint8)
        border = CV2_BORDERS[OPENCV_BORDERS[self.node.argument("border_mode")]]
        apply = cv2.dilate if self.node.operator == DILATE.name else cv2.erode
        for image, target in state.axes.images(data, out):
            image = np.ascontiguousarray(image)
            if border == cv2.BORDER_WRAP:  # which OpenCV's functions don't support
                for _ in range(iterations):
                    margins = (row, height - 1 - row), (column, width - 1 - column), (0, 0)
                    padded = apply(np.pad(image, margins, mode="wrap"), window, anchor=(column, row))
                    padded = padded.reshape(*padded.shape[:2], -1)
                    image = padded[row : row + target.shape[0], column : column + target.shape[1]]
                made = image
            else:
                made = apply(image, window, anchor=(column, row), iterations=iterations, borderType=border)
            np.copyto(target, made.reshape(target.shape))
        return out


@implements(DILATE, "gpu")
@implements(ERODE, "gpu")
class MorphologyGpu(PixelOperator):
    """Compares the pixels of rectangles. Iterations are one step with a larger rectangle."""

    traits = replace(PixelOperator.traits, planewise=True, gathers=True)

    def express(self, batch: Batch, pixels: PixelExpression) -> PixelExpression | None:
        layout = choose_layout(pixels.layout, pixels.ndim, IMAGE_LAYOUTS)
        check_samples(pixels.dtype, _DTYPES)
        rectangles, times = _Rectangles.from_batch(self.node, batch, layout), self.node.argument("iterations")
        sizes, anchors = (rectangles.sizes - 1) * times + 1, rectangles.anchors * times
        border = OPENCV_BORDERS[self.node.argument("border_mode")]
        largest = self.node.operator == DILATE.name
        return pixels.named(layout).extreme(sizes[:, ::-1], anchors[:, ::-1], border, largest)
