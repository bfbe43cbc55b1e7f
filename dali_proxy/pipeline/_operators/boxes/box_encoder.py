"""Matches boxes with default boxes, as detectors like SSD need them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import REQUIRED, Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._imaging.native import compiled
from dali_proxy.pipeline._kernels.encode_boxes import SCALING, BoxEncoding
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import GpuOperator, allocate, each_sample, samples_of
from dali_proxy.pipeline._operator_api.operator import BatchOperator, Setup
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU

BOX_ENCODER = declare_operator(
    name="box_encoder",
    doc="""Assigns boxes and labels to default boxes (anchors), for the training of detectors like SSD.

Each anchor gets the box with the largest intersection over union, if that exceeds `criteria`. Each box is also assigned
to the anchor that it overlaps most. The outputs are a box for each anchor, FLOAT of x, y (the centre), width, height,
and its label, INT32. An anchor without a box has the label 0 and its own coordinates; with `offset`, zeros.""",
    inputs=(
        Input("boxes", "FLOAT of shape (M, 4): left, top, right, bottom."),
        Input("labels", "INT32 of shape (M,) or (M, 1)."),
    ),
    arguments=(
        Argument("anchors", Kind.FLOATS, "Anchors one after the other: left, top, right, bottom.", REQUIRED),
        Argument("criteria", Kind.FLOAT, "Intersection over union that a match must exceed, 0 to 1.", 0.5),
        Argument(
            "offset",
            Kind.BOOL,
            "Return the differences between boxes and anchors: of the centres, in units of the anchor's extents, "
            "and the logarithms of the ratios of the extents.",
            False,
        ),
        Argument("scale", Kind.FLOAT, "Factor of boxes and anchors, for `offset`.", 1.0),
        Argument("means", Kind.FLOATS, "Means of x, y, width, height that `offset` subtracts.", (0.0, 0.0, 0.0, 0.0)),
        Argument(
            "stds",
            Kind.FLOATS,
            "Standard deviations of x, y, width, height by which `offset` divides.",
            (1.0, 1.0, 1.0, 1.0),
        ),
    ),
    devices=("cpu", "gpu"),
    outputs=2,
)


@dataclass(frozen=True)
class _Anchors:
    """The anchors of an operator.

    Attributes:
        planes: left, top, right, bottom, (4, N) float32.
        centers: x, y, width, height, (N, 4) float32.
        areas: areas, (N,) float32.
        means: means of offsets, (4,) float32.
        stds: standard deviations of offsets, (4,) float32.
    """

    planes: Array
    centers: Array
    areas: Array
    means: Array
    stds: Array

    @classmethod
    def from_node(cls, node: GraphNode) -> _Anchors:
        anchors, means, stds = (np.array(node.argument(name), np.float32) for name in ("anchors", "means", "stds"))
        if not len(anchors) or len(anchors) % 4:
            raise ArgumentValueError(f"Anchors size must be divisible by 4, actual value = {len(anchors)}")
        criteria = node.argument("criteria")
        if not 0 <= criteria <= 1:
            bound = "<= 1" if criteria > 1 else ">= 0"
            raise ArgumentValueError(f"Expected criteria {bound}, actual value = {criteria:f}")
        for name, values in (("means", means), ("stds", stds)):
            if len(values) != 4:
                raise ArgumentValueError(f"{name} size must be a list of 4 values, not of {len(values)}")
        if not stds.all():
            raise ArgumentValueError(f"stds values must be != 0: {stds.tolist()}")
        if not node.argument("scale"):
            raise ArgumentValueError("argument 'scale' must not be 0")
        corners = anchors.reshape(-1, 4)
        return cls(np.ascontiguousarray(corners.T), _to_centers(corners), _areas(corners), means, stds)

    def match(self, boxes: Array, criteria: float) -> Array:
        """Return the index of the box of each anchor, or -1. Of equal overlaps, the last one counts, as in DALI."""
        if compiled is not None:
            found = np.empty(len(self.areas), np.int32)
            compiled.match_boxes(np.ascontiguousarray(boxes), self.planes, self.areas, criteria, found)
            return found
        (left, top, right, bottom), ours = np.ascontiguousarray(boxes.T)[..., None], self.planes
        common = np.maximum(np.minimum(ours[2], right) - np.maximum(ours[0], left), 0)  # (boxes, anchors)
        common *= np.maximum(np.minimum(ours[3], bottom) - np.maximum(ours[1], top), 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            overlaps = common / (self.areas + _areas(boxes)[:, None] - common)
        np.copyto(overlaps, 0, where=np.isnan(overlaps))
        matched: Array = len(boxes) - 1 - np.argmax(overlaps[::-1], axis=0)
        matched[overlaps.max(axis=0) <= criteria] = -1
        closest = ours.shape[1] - 1 - np.argmax(overlaps[:, ::-1], axis=1)
        matched[closest] = np.arange(len(boxes))  # an anchor that two boxes share gets the second one
        return matched


def _to_centers(corners: Array) -> Array:
    low, high = corners[:, :2], corners[:, 2:]
    return np.concatenate([(low + high) / np.float32(2), high - low], axis=1)


def _areas(corners: Array) -> Array:
    return (corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1])


def _checked(boxes: Array, labels: Array) -> tuple[Array, Array]:
    """Return the boxes and labels of a sample, a box in each row."""
    _check(boxes.shape, labels.size, boxes.dtype, labels.dtype)
    return boxes.reshape(-1, 4), labels.reshape(-1)


def _check(shape: Sequence[int], labels: int, dtype: np.dtype[Any], kind: np.dtype[Any]) -> None:
    """Check the boxes and labels of a sample."""
    if dtype != np.float32 or kind.kind not in "iu":
        raise ArgumentTypeError(f"boxes must be FLOAT and labels integers, not {dtype} and {kind}; use fn.cast")
    if not (len(shape) == 1 and shape[0] % 4 == 0) and not (len(shape) == 2 and shape[1] == 4):
        raise ArgumentValueError(f"boxes must be of shape (M, 4), not {tuple(shape)}")
    count = math.prod(shape) // 4
    if labels != count:
        raise ArgumentValueError(f"there are {labels} labels for {count} boxes")


@implements(BOX_ENCODER, "cpu")
class BoxEncoderCpu(BatchOperator):
    """Matches the boxes of each sample with the anchors, then encodes those of all samples together."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._anchors = _Anchors.from_node(node)

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        samples = each_sample(_checked, *(data.samples for data in inputs))
        anchors, criteria, offset = self._anchors, self.node.argument("criteria"), self.node.argument("offset")
        matched = np.full((batch.size, len(anchors.centers)), -1)
        first = 0
        for row, (boxes, _) in zip(matched, samples, strict=True):
            if len(boxes):
                found = anchors.match(boxes, criteria)
                row[:] = np.where(found >= 0, found + first, -1)  # counted from the first box of the batch
            first += len(boxes)
        encoded = np.zeros((*matched.shape, 4), np.float32)
        if not offset:
            encoded[:] = anchors.centers
        classes = np.zeros(matched.shape, np.int32)
        rows, columns = np.nonzero(matched >= 0)
        chosen = matched[rows, columns]
        if len(chosen):
            centers = _to_centers(np.concatenate([boxes for boxes, _ in samples]))[chosen]
            encoded[rows, columns] = self._offsets(centers, anchors.centers[columns]) if offset else centers
            classes[rows, columns] = np.concatenate([labels for _, labels in samples])[chosen]
        return [TensorListCPU(encoded), TensorListCPU(classes)]

    def _offsets(self, boxes: Array, anchors: Array) -> Array:
        scale = np.float32(self.node.argument("scale"))
        boxes, anchors = boxes * scale, anchors * scale
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = (boxes[:, :2] - anchors[:, :2]) / anchors[:, 2:]
            grown = np.log(boxes[:, 2:] / anchors[:, 2:])
        return (np.concatenate([moved, grown], axis=1) - self._anchors.means) / self._anchors.stds


@implements(BOX_ENCODER, "gpu")
class BoxEncoderGpu(GpuOperator):
    """Two launches per batch: the closest anchor of each box, and the box of each anchor."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        anchors, argument = _Anchors.from_node(node), node.argument
        self._corners = np.ascontiguousarray(anchors.planes.T)
        self._scaling = np.zeros(1, SCALING)
        values = {"criteria": argument("criteria"), "scale": argument("scale")}
        for name, value in {**values, "means": anchors.means, "stds": anchors.stds}.items():
            self._scaling[name] = value

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        boxes, labels = (samples_of(self.contiguous(data, batch.stream)) for data in inputs)
        check = partial(_check, dtype=boxes.dtype, kind=labels.dtype)
        each_sample(check, boxes.shapes.tolist(), np.prod(labels.shapes, axis=1).tolist())
        row = np.full((batch.size, 1), len(self._corners))
        encoded, encoded_samples = allocate(np.pad(row, ((0, 0), (0, 1)), constant_values=4), np.dtype(np.float32))
        found, found_samples = allocate(row, np.dtype(np.int32))
        plan = BoxEncoding(
            boxes,
            labels,
            encoded_samples,
            found_samples,
            anchors=self._corners,
            scaling=self._scaling,
            offset=self.node.argument("offset"),
        )
        self.launch(plan, batch)
        return [encoded, found]
