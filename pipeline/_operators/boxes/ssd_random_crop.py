"""Crops images at random, with their boxes, as in the training of the detector SSD."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import Argument, Input, Kind, OperatorSchema
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.gpu_operator import fail
from pipeline._operator_api.operator import BatchOperator
from pipeline._operators.boxes.bbox_windows import BoxWindows, check_ratios
from pipeline.errors import ArgumentTypeError, ArgumentValueError, PipelineError
from pipeline.tensors.cpu import Array, TensorListCPU

__all__ = ["SSD_RANDOM_CROP"]

_THRESHOLDS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9)

SSD_RANDOM_CROP = register(
    OperatorSchema(
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
        deprecated=" Use `nvidia.dali.fn.random_bbox_crop` instead.",
    )
)


@implements(SSD_RANDOM_CROP, "cpu")
class SSDRandomCrop(BatchOperator):
    """Draws the windows of all samples together. The cropped images are views."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        samples = [[np.asarray(array) for array in data.samples] for data in inputs]
        failures: list[tuple[int, PipelineError]] = []
        for sample, (image, boxes, labels) in enumerate(zip(*samples, strict=True)):
            try:
                _check(image, boxes, labels)
            except PipelineError as error:
                failures.append((sample, error))
        fail(failures)
        images, all_boxes, all_labels = samples
        counts = [len(boxes) for boxes in all_boxes]
        present = np.arange(max(counts)) < np.array(counts)[:, None]
        padded = np.zeros((*present.shape, 4))
        padded[present] = np.concatenate(all_boxes)
        extents = np.ones((batch.size, 2))
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
        ).draw(batch.generator(self.node), padded, present, extents, None)
        outputs: list[tuple[Array, Array, Array]] = []
        for sample, image in enumerate(images):
            size = np.array([image.shape[1], image.shape[0]])
            anchor, shape = windows.anchors[sample], windows.shapes[sample]
            (left, top), (right, bottom) = (anchor * size).astype(int), np.rint((anchor + shape) * size).astype(int)
            kept = windows.kept[sample, : counts[sample]]
            moved = (all_boxes[sample][kept] - np.tile(anchor, 2)) / np.tile(shape, 2)
            cropped = image[top : max(bottom, top + 1), left : max(right, left + 1)]
            outputs.append((cropped, np.clip(moved, 0, 1).astype(np.float32), all_labels[sample][kept]))
        cropped_images, boxes, labels = (list(column) for column in zip(*outputs, strict=True))
        return [TensorListCPU(cropped_images, inputs[0].layout() or "HWC"), TensorListCPU(boxes), TensorListCPU(labels)]


def _check(image: Array, boxes: Array, labels: Array) -> None:
    if image.ndim != 3 or not image.size:
        raise ArgumentValueError(f"images must be HWC and not empty, but the shape is {image.shape}")
    if boxes.ndim != 2 or boxes.shape[1] != 4 or boxes.dtype != np.float32:
        raise ArgumentValueError(f"boxes must be FLOAT of shape (M, 4), not {boxes.dtype} of shape {boxes.shape}")
    if labels.dtype.kind not in "iu":
        raise ArgumentTypeError(f"labels must be integers, not {labels.dtype}")
    if len(labels) != len(boxes):
        raise ArgumentValueError(f"there are {len(labels)} labels for {len(boxes)} boxes")
