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
                unknown="Unknown bbox_layout: {}.",
            ),
            Argument("bbox_normalized", Kind.BOOL, "Boxes are fractions of the extents, not pixels.", True),
            Argument(
                "mode",
                Kind.STRING,
                '"expand": each box holds the whole rotated box; "fixed": it keeps its width and height, which '
                'are exchanged by angles around 90 degrees; "halfway": the mean of both.',
                "expand",
                choices=tuple(_MODES),
                unknown="Unknown mode: {}.",
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
    """Rotates the centres of all boxes together. One thread is enough, because there are few boxes."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        names = {*node.arguments, *node.argument_inputs}
        if node.argument("keep_size") and "size" in names:
            raise ArgumentValueError("arguments 'keep_size' and 'size' can't be used together")
        threshold = node.argument("remove_threshold")
        if not 0 <= threshold < 1:
            raise ArgumentValueError(f"Index {threshold:f} out of range [0.000000, 1.000000): it is `remove_threshold`")
        layout = node.argument("shape_layout")
        if not {"H", "W"} <= set(layout):
            raise ArgumentValueError(f"argument 'shape_layout' must name H and W, not {layout!r}")

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        canvases = self._canvases(batch)
        samples = [tuple(map(np.asarray, arrays)) for arrays in zip(*(data.samples for data in inputs), strict=True)]
        failures: list[tuple[int, PipelineError]] = []
        for sample, (boxes, *labels) in enumerate(samples):
            try:
                _check(boxes, labels)
            except PipelineError as error:
                failures.append((sample, error))
        fail(failures)
        counts = [len(boxes) for boxes, *_ in samples]
        rotated, kept = self._rotate(np.concatenate([boxes for boxes, *_ in samples]), canvases, counts)
        ends = np.cumsum(counts)[:-1]
        chosen = np.split(kept, ends)
        results = [[own[mask] for own, mask in zip(np.split(rotated, ends), chosen, strict=True)]]
        results += [
            [own[mask] for own, mask in zip(column, chosen, strict=True)]
            for column in [*zip(*samples, strict=True)][1:]
        ]
        return [TensorListCPU(column) for column in results]

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
        linear = affine.rotation(angles.astype(np.float64))[..., :-1]
        for sample, size in enumerate(sizes):
            if len(size):
                targets[sample] = np.resize(np.floor(size + 0.5), 2)
            elif not self.node.argument("keep_size"):
                targets[sample] = rotated_size(linear[sample : sample + 1], sources[sample].tolist())
        return _Canvases(angles.astype(np.float64), sources, targets)

    def _rotate(self, boxes: Array, canvases: _Canvases, counts: Sequence[int]) -> tuple[Array, Array]:
        """Return the rotated boxes of all samples, and the mask of those that are kept."""
        corners = boxes.astype(np.float64)
        if self.node.argument("bbox_layout") == "xyWH":
            corners[:, 2:] += corners[:, :2]
        # A row for each box; width before height.
        source, target = (size[:, ::-1].repeat(counts, axis=0) for size in (canvases.sources, canvases.targets))
        if self.node.argument("bbox_normalized"):
            corners *= np.tile(source, 2)
        turn = np.deg2rad(canvases.angles).repeat(counts)[:, None]
        sine, cosine = np.sin(turn), np.cos(turn)
        center = (corners[:, :2] + corners[:, 2:]) / 2 - source / 2
        center = center * cosine + center[:, ::-1] * sine * (1, -1) + target / 2
        extents = corners[:, 2:] - corners[:, :2]
        expanded = extents * np.abs(cosine) + extents[:, ::-1] * np.abs(sine)
        extents = np.where(np.abs(sine) > np.abs(cosine), extents[:, ::-1], extents)  # width becomes height
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


def _check(boxes: Array, labels: Sequence[Array]) -> None:
    if boxes.ndim != 2 or boxes.shape[1] != 4 or boxes.dtype != np.float32:
        raise ArgumentValueError(f"boxes must be FLOAT of shape (N, 4), not {boxes.dtype} of shape {boxes.shape}")
    for own in labels:
        if own.dtype.kind not in "iu":
            raise ArgumentTypeError(f"labels must be integers, not {own.dtype}")
        if len(own) != len(boxes):
            raise ArgumentValueError(f"Number of labels must match number of boxes. Got: {len(own)} and {len(boxes)}")
