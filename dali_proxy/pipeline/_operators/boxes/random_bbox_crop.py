"""Draws random windows that keep boxes, to train detectors as SSD does."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.arguments import Arguments
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import fail
from dali_proxy.pipeline._operator_api.operator import BatchOperator, Setup
from dali_proxy.pipeline._operators.boxes.bbox_windows import BoxWindows, check_ratios
from dali_proxy.pipeline.errors import ArgumentValueError, PipelineError
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU

# Distance by which boxes may exceed the image.
_SLACK = 1e-4


def _outputs(arguments: Mapping[str, Any]) -> int:
    return 3 + bool(arguments.get("output_bbox_indices"))


_DOC = """Draws a window of the image that keeps enough of the boxes, and returns these boxes relative to the window.

Windows are drawn until one overlaps the boxes by a threshold, which is itself drawn from `thresholds`. With
`allow_no_crop` the whole image is one of the choices. The outputs are the anchor and the shape of the window for
`fn.slice`, float32 of x, y (, z); the boxes in the window; their labels, if there are labels; and with
`output_bbox_indices` their positions among the input boxes, int32."""

RANDOM_BBOX_CROP = declare_operator(
    name="random_bbox_crop",
    random=True,
    draws=("anchor (x, y)", "shape (width, height)"),
    doc=_DOC,
    inputs=(
        Input("boxes", "Float32 of shape (M, 4) or (M, 6), relative to the image: 0 to 1."),
        Input("labels", "Integers of shape (M,).", optional=True),
    ),
    arguments=(
        Argument("thresholds", Kind.FLOATS, "Smallest overlaps; one of them is drawn.", (0.0,)),
        Argument(
            "threshold_type",
            Kind.STRING,
            'Measure of overlap: "iou", intersection over union with the window, or "overlap", the fraction of the '
            "box that is inside.",
            "iou",
            choices=("iou", "overlap"),
            unknown='Not supported ``threshold_type`` value: "{}".',
        ),
        Argument(
            "all_boxes_above_threshold", Kind.BOOL, "All boxes must overlap by the threshold, not only one.", True
        ),
        Argument("allow_no_crop", Kind.BOOL, "The whole image is one of the choices.", True),
        Argument(
            "scaling",
            Kind.FLOATS,
            "Smallest and largest extents of the window, as fractions of the image's.",
            (1.0, 1.0),
        ),
        Argument(
            "aspect_ratio",
            Kind.FLOATS,
            "Smallest and largest width / height; for volumes, also of width / depth and height / depth.",
            (1.0, 1.0),
        ),
        Argument("input_shape", Kind.INTS, "Extents of the image in pixels, to compute aspect ratios.", None, True),
        Argument("crop_shape", Kind.INTS, "Extents of the window in pixels; needs `input_shape`.", None, True),
        Argument("shape_layout", Kind.LAYOUT, 'Order of these extents; "WH" or "WHD" by default.'),
        Argument(
            "bbox_layout",
            Kind.LAYOUT,
            'Order of coordinates, with far corners (X, Y, Z) or extents (W, H, D); "xyXY" or "xyzXYZ" by default.',
        ),
        Argument(
            "ltrb", Kind.BOOL, "Deprecated: boxes are left, top, right, bottom, or left, top, width, height.", True
        ),
        Argument(
            "bbox_prune_threshold",
            Kind.FLOAT,
            "Keep boxes with at least this fraction inside; by default those whose centre is inside.",
        ),
        Argument("num_attempts", Kind.INT, "Windows to draw for a threshold before another threshold is drawn.", 1),
        Argument(
            "total_num_attempts",
            Kind.INT,
            "Largest number of windows to draw, of which the best is taken; -1: no limit.",
            -1,
        ),
        Argument("output_bbox_indices", Kind.BOOL, "Add an output: the positions of the boxes that are kept.", False),
        Argument("quiet", Kind.BOOL, "Don't warn if no window fits.", False),
    ),
    outputs=_outputs,
    optional_outputs=True,
)


@implements(RANDOM_BBOX_CROP, "cpu")
class RandomBBoxCropCpu(BatchOperator):
    """Draws the windows of all samples together."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        argument = node.argument
        scaling = argument("scaling")
        if len(scaling) != 2 or not 0 <= scaling[0] <= scaling[1] <= 1:
            raise ArgumentValueError(f"argument 'scaling' must be a range within 0 to 1, not {list(scaling)}")
        if not argument("thresholds"):
            raise ArgumentValueError("argument 'thresholds' must not be empty")
        if argument("num_attempts") < 1:
            raise ArgumentValueError(f"argument 'num_attempts' must be 1 or more, not {argument('num_attempts')}")
        names = {*node.arguments, *node.argument_inputs}
        if "crop_shape" in names:
            if "input_shape" not in names:
                raise ArgumentValueError("argument 'crop_shape' needs 'input_shape'")
            for name in ("scaling", "aspect_ratio"):
                if name in names:
                    raise ArgumentValueError(f"arguments 'crop_shape' and {name!r} can't be used together")
        self._known: dict[int, tuple[_BoxLayout, BoxWindows]] = {}  # by the number of axes

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        arguments, numbers = batch.arguments(self.node), batch.random_numbers(self.node)
        packed = [data.rows() for data in inputs]
        if _are_alike(packed):
            return self._crop(arguments, numbers.words(2), range(batch.size), inputs, packed[0])
        groups = _by_axes(inputs)
        results: dict[int, list[Any]] = {}
        for samples, key in zip(groups, numbers.words((len(groups), 2)), strict=True):
            parts = [TensorListCPU([data.samples[sample] for sample in samples]) for data in inputs]
            outputs = self._crop(arguments, key, samples, parts, parts[0].rows())
            for number, output in enumerate(outputs):
                column = results.setdefault(number, [None] * batch.size)
                for sample, value in zip(samples, output.samples, strict=True):
                    column[sample] = value
        return [TensorListCPU(column) for column in results.values()]

    def _crop(
        self,
        arguments: Arguments,
        key: Array,
        samples: Sequence[int],
        inputs: Sequence[TensorListCPU],
        packed: tuple[Array, Array] | None,
    ) -> list[TensorListCPU]:
        """Return the outputs for samples whose boxes have the same number of axes.

        Args:
            arguments: arguments of the batch.
            key: key of their random numbers, two words.
            samples: positions of the samples in the batch.
            inputs: boxes of these samples, and possibly labels.
            packed: the rows of these boxes, and the number of boxes of each sample.
        """
        assert packed is not None  # all have the same number of coordinates
        rows, counts = packed
        axes = rows.shape[1] // 2
        if axes not in self._known:
            self._known[axes] = self._layout(axes), self._windows(axes)
        layout, drawing = self._known[axes]
        boxes = layout.read(rows.astype(np.float64))
        if boxes.size and not (boxes.min() >= -_SLACK and boxes.max() <= 1 + _SLACK):
            owners = np.repeat(np.arange(len(counts)), counts)
            outside = np.unique(owners[((boxes < -_SLACK) | (boxes > 1 + _SLACK)).any(axis=1)])
            message = "boxes must lie within the image, from 0 to 1; check 'bbox_layout'"
            fail([(samples[index], ArgumentValueError(message)) for index in outside.tolist()])

        extents, crop = (self._extents(arguments, name, axes, samples) for name in ("input_shape", "crop_shape"))
        windows = drawing.draw(key, boxes, counts, extents, crop)
        if not (windows.fits or self.node.argument("quiet")):
            warnings.warn(
                "fn.random_bbox_crop: no window fits after total_num_attempts; using the best one", stacklevel=2
            )
        anchors, shapes = windows.anchors, windows.shapes
        if extents is not None and crop is not None:
            anchors, shapes = np.rint(anchors * extents), np.rint(shapes * extents)
        outputs = [TensorListCPU.from_dense(each.astype(np.float32)) for each in (anchors, shapes)]
        kept = layout.write(windows.boxes).astype(np.float32)
        outputs.append(TensorListCPU.from_rows(kept, windows.counts))
        if len(inputs) > 1:
            outputs.append(windows.select(inputs[1]))
        if self.node.argument("output_bbox_indices"):
            positions = np.arange(len(boxes)) - np.repeat(np.cumsum(counts) - counts, counts)
            outputs.append(TensorListCPU.from_rows(positions[windows.kept].astype(np.int32), windows.counts))
        return outputs

    def _windows(self, axes: int) -> BoxWindows:
        argument = self.node.argument
        names = {*self.node.arguments, *self.node.argument_inputs}
        return BoxWindows(
            thresholds=argument("thresholds"),
            whole=argument("allow_no_crop") and "crop_shape" not in names,
            iou=argument("threshold_type") == "iou",
            every=argument("all_boxes_above_threshold"),
            prune=argument("bbox_prune_threshold"),
            scaling=(argument("scaling")[0], argument("scaling")[1]),
            ratios=check_ratios(argument("aspect_ratio"), axes),
            attempts=argument("num_attempts"),
            total=argument("total_num_attempts"),
        )

    def _layout(self, axes: int) -> _BoxLayout:
        default = (
            ("xyXY" if axes == 2 else "xyzXYZ") if self.node.argument("ltrb") else ("xyWH" if axes == 2 else "xyzWHD")
        )
        return _BoxLayout(self.node.argument("bbox_layout") or default, axes)

    def _extents(self, arguments: Arguments, name: str, axes: int, samples: Sequence[int]) -> Array | None:
        """Return one vector for each of these samples, in the order of the axes."""
        rows = arguments.optional(arguments.rows, name)
        if rows is None:
            return None
        layout = self.node.argument("shape_layout") or "WHD"[:axes]
        if sorted(layout) != sorted("WHD"[:axes]):
            raise ArgumentValueError(f"argument 'shape_layout' must name {', '.join('WHD'[:axes])}, not {layout!r}")
        message = f"argument {name!r} needs {axes} values, but has {{}}"
        fail(
            [(each, ArgumentValueError(message.format(len(rows[each])))) for each in samples if len(rows[each]) < axes]
        )
        order = [layout.index(letter) for letter in "WHD"[:axes]]
        return np.array([rows[each][order] for each in samples])


def _are_alike(packed: Sequence[tuple[Array, Array] | None]) -> bool:
    """Return whether `_by_axes` would return a single group for inputs with these rows and counts.

    That is known without a loop over samples.
    """
    if any(each is None for each in packed):
        return False
    (boxes, counts), *labels = [each for each in packed if each is not None]
    return boxes.ndim == 2 and boxes.shape[1] in (4, 6) and all(np.array_equal(own, counts) for _, own in labels)


def _by_axes(inputs: Sequence[TensorListCPU]) -> list[list[int]]:
    """Return the positions of the samples with two axes, and of those with three.

    Raises:
        OperatorError: boxes or labels have wrong shapes.
    """
    shapes = inputs[0].shape()
    failures: list[tuple[int, PipelineError]] = [
        (sample, ArgumentValueError(f"boxes must be of shape (M, 4) or (M, 6), not {shape}"))
        for sample, shape in enumerate(shapes)
        if len(shape) != 2 or shape[1] not in (4, 6)
    ]
    if len(inputs) > 1:
        failures += [
            (sample, ArgumentValueError(f"there are {own[0]} labels for {shape[0]} boxes"))
            for sample, (own, shape) in enumerate(zip(inputs[1].shape(), shapes, strict=True))
            if own[:1] != shape[:1]
        ]
    fail(failures)
    groups = [[sample for sample, shape in enumerate(shapes) if shape[1] == 2 * axes] for axes in (2, 3)]
    return [samples for samples in groups if samples]


class _BoxLayout:
    """Order of the coordinates of boxes, which end with the far corner or with extents."""

    def __init__(self, layout: str, axes: int) -> None:
        low, far, extents = "xyz"[:axes], "XYZ"[:axes], "WHD"[:axes]
        self._extents = set(layout) == set(low + extents)
        names = low + (extents if self._extents else far)
        if sorted(layout) != sorted(names):
            raise ArgumentValueError(f"argument 'bbox_layout' must name {low + far} or {low + extents}, not {layout!r}")
        self._order = [layout.index(name) for name in names]
        self._ordered = layout == names
        self._axes = axes

    def read(self, boxes: Array) -> Array:
        """Return boxes of this layout, which may be overwritten, as low corners before high corners."""
        corners: Array = boxes if self._ordered else boxes[:, self._order]
        if self._extents:
            corners[:, self._axes :] += corners[:, : self._axes]
        return corners

    def write(self, boxes: Array) -> Array:
        """Return boxes, given as low corners before high corners, in this layout; they may be overwritten."""
        if self._extents:
            boxes[:, self._axes :] -= boxes[:, : self._axes]
        if self._ordered:
            return boxes
        result: Array = np.empty_like(boxes)
        result[:, self._order] = boxes
        return result
