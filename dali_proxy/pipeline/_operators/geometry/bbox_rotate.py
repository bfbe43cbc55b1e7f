"""Rotates boxes with their images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import REQUIRED, Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._imaging import affine
from dali_proxy.pipeline._operator_api.batch import ArgumentCache, Batch
from dali_proxy.pipeline._operator_api.gpu_operator import fail
from dali_proxy.pipeline._operator_api.operator import BatchOperator, Setup
from dali_proxy.pipeline._operators.geometry.rotate import rotated_sizes
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU
from dali_proxy.pipeline.types import FLOAT, to_numpy_type

_MODES = {"expand": 1.0, "halfway": 0.5, "fixed": 0.0}

BBOX_ROTATE = declare_operator(
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
            "remove_threshold", Kind.FLOAT, "Smallest fraction of a box that must remain, from 0 to below 1.", 0.1
        ),
    ),
    optional_outputs=True,
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
        self._canvases = ArgumentCache(node, self._read_canvases)
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
        canvases = self._canvases.get(batch)
        boxes, *labels = inputs
        shapes = list(zip(*(data.shape() for data in inputs), strict=True))
        errors = {each: reason for each in set(shapes) if (reason := _misfit(*each))}
        if errors:
            fail([(sample, ArgumentValueError(errors[each])) for sample, each in enumerate(shapes) if each in errors])
        if boxes.dtype != FLOAT:
            raise ArgumentValueError(f"boxes must be FLOAT, not {to_numpy_type(boxes.dtype)}")
        for dtype in (to_numpy_type(own.dtype) for own in labels):
            if dtype.kind not in "iu":
                raise ArgumentTypeError(f"labels must be integers, not {dtype}")
        (rows, counts), *others = (data.rows() for data in inputs)
        rotated, kept = self._rotate(rows, canvases, counts)
        left = np.bincount(np.arange(len(counts)).repeat(counts)[kept], minlength=len(counts))
        return [TensorListCPU.from_rows(column[kept], left) for column in (rotated, *(own for own, _ in others))]

    def _read_canvases(self, batch: Batch) -> _Canvases:
        arguments = batch.arguments(self.node)
        angles = arguments.scalars("angle", np.float32)
        shapes = arguments.vectors("input_shape", None, np.int64)
        layout = self.node.argument("shape_layout")
        order = [layout.index("H"), layout.index("W")]
        if shapes.shape[1] <= max(order):
            raise ArgumentValueError(f"argument 'input_shape' needs an extent for each of {layout!r}")
        sources = shapes[:, order]
        turns = angles.astype(np.float64)
        keeps_size = self.node.argument("keep_size")
        targets = sources if keeps_size else rotated_sizes(affine.rotation(turns)[..., :-1], sources)
        targets = targets.astype(np.float64)
        sizes = arguments.rows("size", np.float32) if arguments.given("size") else ()
        for sample, size in enumerate(sizes or ()):
            if len(size):
                targets[sample] = np.resize(np.floor(size + 0.5), 2)
        return _Canvases(turns, sources, targets)

    def _rotate(self, boxes: Array, canvases: _Canvases, counts: Array) -> tuple[Array, Array]:
        """Return the rotated boxes of all samples, and the mask of those that are kept."""
        corners = np.ascontiguousarray(boxes.T, np.float64)  # a row for each coordinate, because NumPy loops over rows
        if self.node.argument("bbox_layout") == "xyWH":
            corners[2:] += corners[:2]
        turn = np.deg2rad(canvases.angles)
        of_samples = np.empty((6, len(turn)))
        of_samples[:2], of_samples[2:4] = canvases.sources.T[::-1], canvases.targets.T[::-1]  # width before height
        np.sin(turn, out=of_samples[4])
        np.cos(turn, out=of_samples[5])
        columns = of_samples.repeat(counts, axis=1)  # a column for each box
        source, target, sine, cosine = columns[:2], columns[2:4], columns[4], columns[5]
        if self.node.argument("bbox_normalized"):
            corners[:2] *= source
            corners[2:] *= source
        center = (corners[:2] + corners[2:]) / 2 - source / 2
        crossed = center[::-1] * sine
        np.negative(crossed[1], out=crossed[1])
        center = center * cosine + crossed + target / 2
        extents = corners[2:] - corners[:2]
        tall, wide = np.abs(sine), np.abs(cosine)
        steep = tall > wide
        expanded = extents * wide + extents[::-1] * tall
        extents = np.where(steep, extents[::-1], extents)  # width becomes height
        share = _MODES[self.node.argument("mode")]
        half = (share * expanded + (1 - share) * extents) / 2
        low, high = center - half, center + half
        inside_low, inside_high = np.clip(low, 0, target), np.clip(high, 0, target)
        whole, remaining = np.multiply(*(2 * half)), np.multiply(*(inside_high - inside_low))
        with np.errstate(divide="ignore", invalid="ignore"):
            kept: Array = remaining / whole >= self.node.argument("remove_threshold")
        if self.node.argument("bbox_layout") == "xyWH":
            inside_high = inside_high - inside_low
        if self.node.argument("bbox_normalized"):
            inside_low, inside_high = inside_low / target, inside_high / target
        rotated = np.concatenate([inside_low, inside_high])
        return np.ascontiguousarray(rotated.T, np.float32), kept


def _misfit(boxes: tuple[int, ...], labels: tuple[int, ...] | None = None) -> str:
    """Return what is wrong with the shapes of a sample; empty if they fit."""
    if len(boxes) != 2 or boxes[1] != 4:
        return f"boxes must be of shape (N, 4), not {boxes}"
    if labels is not None and labels[:1] != boxes[:1]:
        count = labels[0] if labels else 0
        return f"Number of labels must match number of boxes. Got: {count} and {boxes[0]}"
    return ""
