"""Dilates and erodes images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import Argument, Input, Kind, OperatorSchema
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.image_axes import IMAGE_LAYOUTS, ImageAxes
from pipeline._operator_api.layouts import choose_layout
from pipeline._operator_api.operator import OutputSpec, SampleOperator
from pipeline._operator_api.output_dtype import check_samples
from pipeline._operator_api.output_specs import describe, known_extents
from pipeline.errors import ArgumentValueError
from pipeline.tensors.cpu import Array
from pipeline.types import FLOAT, FLOAT64, INT16, UINT8, UINT16

__all__ = ["DILATE", "ERODE"]

_DTYPES = (UINT8, UINT16, INT16, FLOAT, FLOAT64)
_BORDERS = {
    "constant": cv2.BORDER_CONSTANT,
    "replicate": cv2.BORDER_REPLICATE,
    "reflect": cv2.BORDER_REFLECT,
    "reflect_101": cv2.BORDER_REFLECT_101,
    "wrap": cv2.BORDER_WRAP,
}


def _declare(name: str, extreme: str) -> OperatorSchema:
    return register(
        OperatorSchema(
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
                    choices=tuple(_BORDERS),
                ),
                Argument("iterations", Kind.INT, "How often to repeat the operation.", 1),
            ),
        )
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


@implements(DILATE, "cpu")
@implements(ERODE, "cpu")
class MorphologyCpu(SampleOperator[_Rectangles]):
    """Runs OpenCV for each image."""

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[_Rectangles, Sequence[OutputSpec]]:
        (data,) = inputs
        known = known_extents(batch, self.node, inputs)
        layout = choose_layout(data.layout, None if known is None else len(known), IMAGE_LAYOUTS)
        arguments = batch.arguments(self.node)
        sizes, anchors = (arguments.vectors(name, 2, np.int64) for name in ("mask_size", "anchor"))
        assert sizes is not None
        assert anchors is not None
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
        if self.node.argument("iterations") < 0:
            raise ArgumentValueError(f"argument 'iterations' can't be negative: {self.node.argument('iterations')}")
        state = _Rectangles(ImageAxes.from_layout(layout, len(layout)), sizes, anchors)
        return state, [describe(layout, known, data.dtype)]

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
        border = _BORDERS[self.node.argument("border_mode")]
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
