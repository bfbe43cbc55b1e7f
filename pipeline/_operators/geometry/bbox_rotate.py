"""Rotates boxes with their images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import REQUIRED, Argument, Input, Kind, OperatorSchema
from pipeline._graph.graph import GraphNode
from pipeline._imaging import affine
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.gpu_operator import fail
from pipeline._operator_api.operator import BatchOperator, Setup
from pipeline._operators.geometry.rotate import rotated_size
from pipeline.errors import ArgumentTypeError, ArgumentValueError, PipelineError
from pipeline.tensors.cpu import Array, TensorListCPU

__all__ = ["BBOX_ROTATE"]

_MODES = {"expand": 1.0, "halfway": 0.5, "fixed": 0.0}

BBOX_ROTATE = register(
    OperatorSchema(
        name="bbox_rotate",
        doc="""Computes the boxes of images that `fn.rotate` rotates.

Boxes are cut off at the edge of the output. Those of which less than `remove_threshold` remains are removed, with their
labels. The outputs are the boxes, and their labels if there are labels.""",
        inputs=(
            Input("boxes", "FLOAT of shape (N, 4)."),
            Input("labels", "Integers of shape (N,) or (N, 1).", optional=True),
        ),
        arguments=(
            Argument("angle", Kind.FLOAT, "Angle in degrees, counter-clockwise.", REQUIRED, per_sample=True),
            Argument("input_shape", Kind.INTS, "Extents of the image, before its rotation.", REQUIRED, per_sample=True),
            Argument("shape_layout", Kind.LAYOUT, "Order of these extents.", "HW"),
            Argument("keep_size", Kind.BOOL, "`fn.rotate` keeps the size of the image.", False),
            Argument("size", Kind.FLOATS, "Height and width of the rotated image, as in `fn.rotate`.", (), True),
            Argument(
                "bbox_layout",
                Kind.LAYOUT,
                '"xyXY": left, top, right, bottom; "xyWH": left, top, width, height.',
                "xyXY",
                choices=("xyXY", "xyWH"),
            ),
            Argument("bbox_normalized", Kind.BOOL, "Boxes are fractions of the extents, not pixels.", True),
            Argument(
                "mode",
                Kind.STRING,
                '"expand": each box holds the whole rotated box; "fixed": it keeps its width and height, which '
                'are exchanged by angles around 90 degrees; "halfway": the mean of both.',
                "expand",
                choices=tuple(_MODES),
            ),
            Argument(
                "remove_threshold",
                Kind.FLOAT,
                "Smallest fraction of a box that must remain, from 0 to below 1.",
                0.1,
            ),
        ),
        optional_outputs=True,
    )
)


@dataclass(frozen=True)
class _Canvases:
    """The rotations of a batch.

    Attributes:
        angles: angles in degrees, (N,).
        sources: height and width of each image, (N, 2).
        targets: height and width of each rotated image, (N, 2).
    """

    angles: Array
    sources: Array
    targets: Array


@implements(BBOX_ROTATE, "cpu")
class BBoxRotateCpu(BatchOperator):
    """Rotates the centres of the boxes of a sample together. One thread is enough, because there are few boxes."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        names = {*node.arguments, *node.argument_inputs}
        if node.argument("keep_size") and "size" in names:
            raise ArgumentValueError("arguments 'keep_size' and 'size' can't be used together")
        threshold = node.argument("remove_threshold")
        if not 0 <= threshold < 1:
            raise ArgumentValueError(f"argument 'remove_threshold' must be from 0 to below 1, not {threshold:g}")
        layout = node.argument("shape_layout")
        if not {"H", "W"} <= set(layout):
            raise ArgumentValueError(f"argument 'shape_layout' must name H and W, not {layout!r}")

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        canvases = self._canvases(batch)
        results: list[tuple[Array, ...]] = []
        failures: list[tuple[int, PipelineError]] = []
        for sample, arrays in enumerate(zip(*(data.samples for data in inputs), strict=True)):
            try:
                boxes, *labels = map(np.asarray, arrays)
                rotated, kept = self._rotate(boxes, canvases, sample)
                for own in labels:
                    _check_labels(own, boxes)
                results.append((rotated[kept], *(own[kept] for own in labels)))
            except PipelineError as error:
                failures.append((sample, error))
        fail(failures)
        return [TensorListCPU(list(column)) for column in zip(*results, strict=True)]

    def _canvases(self, batch: Batch) -> _Canvases:
        arguments = batch.arguments(self.node)
        angles = arguments.scalars("angle", np.float32)
        shapes = arguments.rows("input_shape", np.int64)
        sizes = arguments.rows("size", np.float32)
        assert angles is not None
        assert shapes is not None
        assert sizes is not None
        layout = self.node.argument("shape_layout")
        order = [layout.index("H"), layout.index("W")]
        for shape in shapes:
            if len(shape) <= max(order):
                raise ArgumentValueError(f"argument 'input_shape' needs an extent for each of {layout!r}")
        sources = np.array([shape[order] for shape in shapes])
        targets = sources.astype(np.float64)
        for sample, size in enumerate(sizes):
            if len(size):
                targets[sample] = np.resize(np.floor(size + 0.5), 2)
            elif not self.node.argument("keep_size"):
                linear = affine.rotation(angles[sample : sample + 1].astype(np.float64))[..., :-1]
                targets[sample] = rotated_size(linear, sources[sample].tolist())
        return _Canvases(angles.astype(np.float64), sources, targets)

    def _rotate(self, boxes: Array, canvases: _Canvases, sample: int) -> tuple[Array, Array]:
        """Return the rotated boxes of a sample, and the mask of those that are kept."""
        if boxes.ndim != 2 or boxes.shape[1] != 4 or boxes.dtype != np.float32:
            raise ArgumentValueError(f"boxes must be FLOAT of shape (N, 4), not {boxes.dtype} of shape {boxes.shape}")
        corners = boxes.astype(np.float64)
        if self.node.argument("bbox_layout") == "xyWH":
            corners[:, 2:] += corners[:, :2]
        source, target = canvases.sources[sample][::-1], canvases.targets[sample][::-1]  # width before height
        if self.node.argument("bbox_normalized"):
            corners *= np.tile(source, 2)
        turn = np.deg2rad(canvases.angles[sample])
        sine, cosine = np.sin(turn), np.cos(turn)
        center = (corners[:, :2] + corners[:, 2:]) / 2 - source / 2
        center = center @ np.array([[cosine, -sine], [sine, cosine]]) + target / 2
        extents = corners[:, 2:] - corners[:, :2]
        expanded = extents @ np.abs(np.array([[cosine, sine], [sine, cosine]]))
        if abs(sine) > abs(cosine):  # width becomes height
            extents = extents[:, ::-1]
        share = _MODES[self.node.argument("mode")]
        half = (share * expanded + (1 - share) * extents) / 2
        low, high = center - half, center + half
        inside_low, inside_high = np.clip(low, 0, target), np.clip(high, 0, target)
        whole, remaining = np.prod(2 * half, axis=1), np.prod(inside_high - inside_low, axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            kept: Array = remaining / whole >= self.node.argument("remove_threshold")
        if self.node.argument("bbox_layout") == "xyWH":
            inside_high = inside_high - inside_low
        rotated = np.concatenate([inside_low, inside_high], axis=1)
        if self.node.argument("bbox_normalized"):
            rotated /= np.tile(target, 2)
        return rotated.astype(np.float32), kept


def _check_labels(labels: Array, boxes: Array) -> None:
    if labels.dtype.kind not in "iu":
        raise ArgumentTypeError(f"labels must be integers, not {labels.dtype}")
    if len(labels) != len(boxes):
        raise ArgumentValueError(f"there are {len(labels)} labels for {len(boxes)} boxes")
