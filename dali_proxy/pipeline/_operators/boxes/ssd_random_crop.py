"""Crops images at random, with their boxes, as in the training of the detector SSD."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import fail
from dali_proxy.pipeline._operator_api.operator import BatchOperator
from dali_proxy.pipeline._operators.boxes.bbox_windows import BoxWindows, check_ratios
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError, PipelineError
from dali_proxy.pipeline.tensors.cpu import TensorListCPU
from dali_proxy.pipeline.types import to_numpy_type

_THRESHOLDS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9)

SSD_RANDOM_CROP = declare_operator(
    name="ssd_random_crop",
    doc="""Crops images at random, and keeps the boxes whose centre is in the window.

Deprecated: `fn.random_bbox_crop` has more options. Boxes are returned relative to the window. First, a threshold is
drawn. Then windows are drawn until the intersection over union of the window with every box is at least the threshold.
Instead of a threshold, the draw may select the whole image.""",
    inputs=(
        Input("images", "Images, HWC."),
        Input("boxes", "FLOAT of shape (M, 4): left, top, right, bottom, relative to the image, from 0 to 1."),
        Input("labels", "Integers of shape (M,) or (M, 1)."),
    ),
    arguments=(
        Argument("num_attempts", Kind.INT, "Windows to draw for a threshold before another threshold is drawn.", 1),
    ),
    outputs=3,
    random=True,
    draws=("anchor (x, y)", "shape (width, height)"),
    deprecated=" Use `nvidia.dali.fn.random_bbox_crop` instead.",
)


@implements(SSD_RANDOM_CROP, "cpu")
class SSDRandomCrop(BatchOperator):
    """Draws the windows of all samples together. The cropped images are views."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        shapes = list(zip(*(data.shape() for data in inputs), strict=True))
        dtypes = [to_numpy_type(data.dtype) for data in inputs[1:]]
        errors = {each: _misfit(*each, *dtypes) for each in set(shapes)}
        fail([(sample, error) for sample, each in enumerate(shapes) if (error := errors[each]) is not None])
        packed = inputs[1].rows()
        assert packed is not None  # all have four columns
        rows, counts = packed
        images = inputs[0].samples
        windows = BoxWindows(
            thresholds=_THRESHOLDS,
            whole=True,
            iou=True,
            every=True,
            prune=None,
            scaling=(0.3, 1.0),
            ratios=check_ratios((0.5, 2.0), 2),
            attempts=max(1, self.node.argument("num_attempts")),
            total=-1,
            redraw=False,
        ).draw(batch.random_numbers(self.node).words(2), rows.astype(np.float64), counts)
        batch.note_draws(self.node, windows.anchors, windows.shapes)
        sizes = np.array([image.shape[1::-1] for image in images])
        first = (windows.anchors * sizes).astype(int).tolist()
        last = np.rint((windows.anchors + windows.shapes) * sizes).astype(int).tolist()
        cropped = [
            image[top : max(bottom, top + 1), left : max(right, left + 1)]
            for image, (left, top), (right, bottom) in zip(images, first, last, strict=True)
        ]
        boxes = TensorListCPU.from_rows(windows.boxes.astype(np.float32), windows.counts)
        return [TensorListCPU(cropped, inputs[0].layout() or "HWC"), boxes, windows.select(inputs[2])]


def _misfit(
    image: tuple[int, ...],
    boxes: tuple[int, ...],
    labels: tuple[int, ...],
    boxes_dtype: np.dtype[Any],
    labels_dtype: np.dtype[Any],
) -> PipelineError | None:
    """Return the error of a sample with these shapes and dtypes; None if they fit."""
    if len(image) != 3 or not all(image):
        return ArgumentValueError(f"images must be HWC and not empty, but the shape is {image}")
    if len(boxes) != 2 or boxes[1] != 4 or boxes_dtype != np.float32:
        return ArgumentValueError(f"boxes must be FLOAT of shape (M, 4), not {boxes_dtype} of shape {boxes}")
    if labels_dtype.kind not in "iu":
        return ArgumentTypeError(f"labels must be integers, not {labels_dtype}")
    if labels[:1] != boxes[:1]:
        return ArgumentValueError(f"there are {labels[0] if labels else 0} labels for {boxes[0]} boxes")
    return None
