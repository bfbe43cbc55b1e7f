"""Random windows that keep boxes: for training of detectors, as SSD does."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import Argument, Input, Kind, OperatorSchema
from pipeline._graph.graph import GraphNode
from pipeline._operator_api.arguments import Arguments
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.gpu_operator import fail
from pipeline._operator_api.operator import BatchOperator, Setup
from pipeline._operators.boxes.bbox_windows import BoxWindows, check_ratios
from pipeline.errors import ArgumentValueError, PipelineError
from pipeline.tensors.cpu import Array, TensorListCPU

__all__ = ["RANDOM_BBOX_CROP"]

# By how much boxes may reach over the picture.
_SLACK = 1e-4


def _outputs(arguments: Mapping[str, Any]) -> int:
    return 3 + bool(arguments.get("output_bbox_indices"))


_DOC = """Draws a window of the image that keeps enough of the boxes on it; returns these in the window's coordinates.

A window is drawn until it overlaps the boxes by a threshold, which is itself drawn from `thresholds`; with
`allow_no_crop` the whole image is one of the choices. The outputs are the window's anchor and shape, float32 of
x, y (, z), for `fn.slice`; the boxes that are kept; their labels, where labels are given; and with
`output_bbox_indices` their positions among the boxes, int32."""

RANDOM_BBOX_CROP = register(
    OperatorSchema(
        name="random_bbox_crop",
        doc=_DOC,
        inputs=(
            Input("boxes", "Float32 of shape (M, 4) or (M, 6), relative to the image: 0 to 1."),
            Input("labels", "Integers of shape (M,).", optional=True),
        ),
        arguments=(
            Argument("thresholds", Kind.FLOATS, "Least overlaps, one of which is drawn.", (0.0,)),
            Argument(
                "threshold_type",
                Kind.STRING,
                'What an overlap is: "iou", intersection over union with the window, or "overlap", the part of the box '
                "that is inside.",
                "iou",
                choices=("iou", "overlap"),
            ),
            Argument("all_boxes_above_threshold", Kind.BOOL, "All boxes must overlap as much, not only one.", True),
            Argument("allow_no_crop", Kind.BOOL, "The whole image is one of the choices.", True),
            Argument("scaling", Kind.FLOATS, "Least and largest extents of the window.", (1.0, 1.0)),
            Argument(
                "aspect_ratio",
                Kind.FLOATS,
                "Least and largest width over height; in space also of width over depth and height over depth.",
                (1.0, 1.0),
            ),
            Argument("input_shape", Kind.INTS, "Extents of the image, in pixels, for aspect ratios.", None, True),
            Argument("crop_shape", Kind.INTS, "Extents of the window in pixels; needs `input_shape`.", None, True),
            Argument("shape_layout", Kind.LAYOUT, 'Order of these extents; "WH" or "WHD" by default.'),
            Argument("bbox_layout", Kind.LAYOUT, 'Order of coordinates; "xyXY" or "xyzXYZ" by default, or with WHD.'),
            Argument(
                "ltrb", Kind.BOOL, "Deprecated: boxes are left, top, right, bottom, or left, top, width, height.", True
            ),
            Argument(
                "bbox_prune_threshold",
                Kind.FLOAT,
                "Keep boxes of which that part is inside; by default those whose centre is.",
            ),
            Argument("num_attempts", Kind.INT, "Windows drawn for a threshold before another one is drawn.", 1),
            Argument(
                "total_num_attempts", Kind.INT, "Windows drawn at most, the best of which is taken; -1: no limit.", -1
            ),
            Argument("output_bbox_indices", Kind.BOOL, "Return the positions of the boxes that are kept.", False),
            Argument("quiet", Kind.BOOL, "Don't warn when the best window is none that fits.", False),
        ),
        outputs=_outputs,
        optional_outputs=True,
    )
)


@implements(RANDOM_BBOX_CROP, "cpu")
class RandomBBoxCropCpu(BatchOperator):
    """Windows of all samples are drawn together."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        given = node.argument
        scaling = given("scaling")
        if len(scaling) != 2 or not 0 <= scaling[0] <= scaling[1] <= 1:
            raise ArgumentValueError(f"argument 'scaling' must be a range within 0 to 1, not {list(scaling)}")
        if not given("thresholds"):
            raise ArgumentValueError("argument 'thresholds' is empty")
        if given("num_attempts") < 1:
            raise ArgumentValueError(f"argument 'num_attempts' must be 1 or more, not {given('num_attempts')}")
        names = {*node.arguments, *node.argument_inputs}
        if "crop_shape" in names:
            if "input_shape" not in names:
                raise ArgumentValueError("argument 'crop_shape' needs 'input_shape'")
            for name in ("scaling", "aspect_ratio"):
                if name in names:
                    raise ArgumentValueError(f"arguments 'crop_shape' and {name!r} exclude each other")

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        boxes, labels = [np.asarray(sample) for sample in inputs[0].samples], None
        failures: list[tuple[int, PipelineError]] = [
            (sample, ArgumentValueError(f"boxes must be of shape (M, 4) or (M, 6), not {each.shape}"))
            for sample, each in enumerate(boxes)
            if each.ndim != 2 or each.shape[1] not in (4, 6)
        ]
        if len(inputs) > 1:
            labels = [np.asarray(sample) for sample in inputs[1].samples]
            failures += [
                (sample, ArgumentValueError(f"{len(given)} labels for {len(each)} boxes"))
                for sample, (given, each) in enumerate(zip(labels, boxes, strict=True))
                if len(given) != len(each)
            ]
        fail(failures)
        made: list[Any] = [None] * batch.size
        generator = batch.generator(self.node)
        for axes in (2, 3):
            chosen = [sample for sample, each in enumerate(boxes) if each.shape[1] == 2 * axes]
            if chosen:
                found = self._crop(batch.arguments(self.node), generator, chosen, [boxes[each] for each in chosen])
                for sample, outputs in zip(chosen, found, strict=True):
                    made[sample] = outputs
        columns = [list(column) for column in zip(*made, strict=True)]
        kept = columns[-1]
        if labels is not None:
            columns.insert(3, [given[index] for given, index in zip(labels, kept, strict=True)])
        if not self.node.argument("output_bbox_indices"):
            columns.pop()
        return [TensorListCPU(column) for column in columns]

    def _crop(
        self, arguments: Arguments, generator: np.random.Generator, chosen: list[int], given: list[Array]
    ) -> Iterator[tuple[Array, Array, Array, Array]]:
        """Return anchor, shape, boxes and indices of each of these samples, which have as many axes."""
        axes = given[0].shape[1] // 2
        order = self._layout(axes)
        counts = np.array([len(each) for each in given])
        rows = order.read(np.concatenate(given).astype(np.float64))
        present = np.arange(counts.max()) < counts[:, None]
        boxes = np.zeros((*present.shape, 2 * axes))
        boxes[present] = rows
        outside = ((boxes < -_SLACK) | (boxes > 1 + _SLACK)).any(axis=(1, 2))
        message = "boxes must lie within the image, 0 to 1; is 'bbox_layout' correct?"
        fail([(chosen[index], ArgumentValueError(message)) for index in np.flatnonzero(outside).tolist()])

        extents, crop = (self._extents(arguments, name, axes, chosen) for name in ("input_shape", "crop_shape"))
        pixels = np.ones((len(given), axes)) if extents is None else extents
        windows = self._windows(axes).draw(generator, boxes, present, pixels, crop)
        if not (windows.fits.all() or self.node.argument("quiet")):
            warnings.warn(
                "fn.random_bbox_crop: no window fits after total_num_attempts; the best one is taken", stacklevel=2
            )
        far = np.concatenate([windows.anchors] * 2, axis=1)[:, None]
        moved = np.clip((boxes - far) / np.concatenate([windows.shapes] * 2, axis=1)[:, None], 0, 1)
        kept = order.write(moved[windows.kept]).astype(np.float32)
        anchors, shapes = windows.anchors, windows.shapes
        if crop is not None:
            anchors, shapes = np.rint(anchors * pixels), np.rint(shapes * pixels)
        ends = np.cumsum(windows.kept.sum(axis=1))[:-1]
        indices = np.nonzero(windows.kept)[1].astype(np.int32)
        return zip(
            anchors.astype(np.float32),
            shapes.astype(np.float32),
            np.split(kept, ends),
            np.split(indices, ends),
            strict=True,
        )

    def _windows(self, axes: int) -> BoxWindows:
        given = self.node.argument
        names = {*self.node.arguments, *self.node.argument_inputs}
        return BoxWindows(
            thresholds=given("thresholds"),
            whole=given("allow_no_crop") and "crop_shape" not in names,
            iou=given("threshold_type") == "iou",
            every=given("all_boxes_above_threshold"),
            prune=given("bbox_prune_threshold"),
            scaling=(given("scaling")[0], given("scaling")[1]),
            ratios=check_ratios(given("aspect_ratio"), axes),
            attempts=given("num_attempts"),
            total=given("total_num_attempts"),
        )

    def _layout(self, axes: int) -> _Order:
        default = (
            ("xyXY" if axes == 2 else "xyzXYZ") if self.node.argument("ltrb") else ("xyWH" if axes == 2 else "xyzWHD")
        )
        return _Order(self.node.argument("bbox_layout") or default, axes)

    def _extents(self, arguments: Arguments, name: str, axes: int, chosen: list[int]) -> Array | None:
        """Return one vector for each of these samples, in the order of axes."""
        rows = arguments.rows(name)
        if rows is None:
            return None
        layout = self.node.argument("shape_layout") or "WHD"[:axes]
        if sorted(layout) != sorted("WHD"[:axes]):
            raise ArgumentValueError(f"argument 'shape_layout' must name {', '.join('WHD'[:axes])}, not {layout!r}")
        short = f"argument {name!r} needs {axes} values, but has {{}}"
        fail([(each, ArgumentValueError(short.format(len(rows[each])))) for each in chosen if len(rows[each]) < axes])
        order = [layout.index(letter) for letter in "WHD"[:axes]]
        return np.array([rows[each][order] for each in chosen])


class _Order:
    """How boxes are written: the order of their coordinates, with the far corner or with extents."""

    def __init__(self, layout: str, axes: int) -> None:
        low, far, extents = "xyz"[:axes], "XYZ"[:axes], "WHD"[:axes]
        self._extents = set(layout) == set(low + extents)
        names = low + (extents if self._extents else far)
        if sorted(layout) != sorted(names):
            raise ArgumentValueError(f"argument 'bbox_layout' must name {low + far} or {low + extents}, not {layout!r}")
        self._order = [layout.index(name) for name in names]
        self._axes = axes

    def read(self, boxes: Array) -> Array:
        """Return boxes as lows before highs."""
        made: Array = boxes[:, self._order]
        if self._extents:
            made[:, self._axes :] += made[:, : self._axes]
        return made

    def write(self, boxes: Array) -> Array:
        """Return the boxes in their own order."""
        made = boxes.copy()
        if self._extents:
            made[:, self._axes :] -= made[:, : self._axes]
        result: Array = np.empty_like(made)
        result[:, self._order] = made
        return result
