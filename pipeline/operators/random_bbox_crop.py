"""Random windows that keep boxes: for training of detectors, as SSD does."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.errors import ArgumentValueError, OperatorError, PipelineError, SampleFailure
from pipeline.executor.arguments import Arguments
from pipeline.executor.batch import Batch
from pipeline.graph.graph import GraphNode
from pipeline.operators.base import BatchOperator, Setup
from pipeline.operators.registry import implements, register
from pipeline.operators.schema import Argument, Input, Kind, OperatorSchema
from pipeline.tensors.cpu import Array, TensorListCPU

__all__ = ["RANDOM_BBOX_CROP"]

# Half of the candidates that are drawn and looked at together at first; twice as many each time.
_CHUNK = 4
# How often a shape is drawn before its shorter side is stretched to fit the aspect ratio.
_DRAWS = 16
# By how much boxes may reach over the picture.
_SLACK = 1e-4


def _outputs(arguments: Mapping[str, Any]) -> int:
    return 3 + bool(arguments.get("output_bbox_indices"))


_DOC = """Draws a window of the picture that keeps enough of the boxes on it; returns these in the window's coordinates.

A window is drawn until it overlaps the boxes by a threshold, which is itself drawn from `thresholds`; with
`allow_no_crop` the whole picture is one of the choices. The outputs are the window's anchor and shape, float32 of
x, y (, z), for `fn.slice`; the boxes that are kept; their labels, where labels are given; and with
`output_bbox_indices` their positions among the boxes, int32."""

RANDOM_BBOX_CROP = register(
    OperatorSchema(
        name="random_bbox_crop",
        doc=_DOC,
        inputs=(
            Input("boxes", "Float32 of shape (M, 4) or (M, 6), relative to the picture: 0 to 1."),
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
            Argument("allow_no_crop", Kind.BOOL, "The whole picture is one of the choices.", True),
            Argument("scaling", Kind.FLOATS, "Least and largest extents of the window.", (1.0, 1.0)),
            Argument(
                "aspect_ratio",
                Kind.FLOATS,
                "Least and largest width over height; in space also of width over depth and height over depth.",
                (1.0, 1.0),
            ),
            Argument("input_shape", Kind.INTS, "Extents of the picture, in pixels, for aspect ratios.", None, True),
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


@dataclass(frozen=True)
class _Window:
    """A window and what it keeps: anchor and shape as fractions, and which boxes."""

    anchor: Array
    shape: Array
    kept: Array
    overlap: float


class _Cropping:
    """The choices for one sample.

    Args:
        node: the operator.
        boxes: (M, 2 D), lows before highs.
        extents: of the picture in pixels (D,), or ones.
        crop: extents of the window in pixels, or None.
    """

    def __init__(self, node: GraphNode, boxes: Array, extents: Array, crop: Array | None) -> None:
        given = node.argument
        self._axes = boxes.shape[1] // 2
        self._boxes, self._extents, self._crop = boxes, extents, crop
        self._thresholds = given("thresholds")
        self._whole = given("allow_no_crop") and crop is None
        self._iou = given("threshold_type") == "iou"
        self._all = given("all_boxes_above_threshold")
        self._prune = given("bbox_prune_threshold")
        self._scaling = given("scaling")
        self._ratios = _ratios(given("aspect_ratio"), self._axes)
        self._attempts, self._total = given("num_attempts"), given("total_num_attempts")

    def draw(self, generator: np.random.Generator) -> tuple[_Window | None, bool]:
        """Return a window, or None for the whole picture, and whether it fits."""
        left = self._total if self._total > 0 else None
        best: _Window | None = None
        while left is None or left > 0:
            choice = int(generator.integers(len(self._thresholds) + self._whole))
            if choice == len(self._thresholds):
                return None, True
            threshold = self._thresholds[choice]
            attempts = self._attempts if left is None else min(self._attempts, left)
            begin, count = 0, _CHUNK
            while begin < attempts:
                count = min(2 * count, attempts - begin)
                begin += count
                for window in self._candidates(generator, count):
                    fits = window.overlap >= threshold and (window.kept.any() or not len(self._boxes))
                    if fits:
                        return window, True
                    if best is None or (window.kept.any(), window.overlap) > (best.kept.any(), best.overlap):
                        best = window
            if left is not None:
                left -= self._attempts
        return best, False

    def _candidates(self, generator: np.random.Generator, count: int) -> list[_Window]:
        shapes = self._shapes(generator, count)
        if self._crop is None:
            anchors = generator.random(shapes.shape) * (1 - shapes)
        else:
            room = self._extents - self._crop
            low, high = np.minimum(room, 0), np.maximum(room, 0)
            anchors = generator.integers(low, high, (count, self._axes), endpoint=True) / self._extents
        low, high = self._boxes[:, : self._axes], self._boxes[:, self._axes :]
        inside = np.minimum(high, (anchors + shapes)[:, None]) - np.maximum(low, anchors[:, None])
        common = np.prod(np.maximum(inside, 0), axis=-1)
        sizes = np.prod(high - low, axis=-1)
        with np.errstate(invalid="ignore", divide="ignore"):
            parts = np.nan_to_num(common / sizes)
            union = sizes + np.prod(shapes, axis=-1)[:, None] - common
            overlaps = np.nan_to_num(common / union) if self._iou else parts
        if self._prune is None:
            centers = (low + high) / 2
            kept = ((centers >= anchors[:, None]) & (centers <= (anchors + shapes)[:, None])).all(axis=-1)
        else:
            kept = (parts >= self._prune) & (common > 0)
        least = overlaps.min(axis=1, initial=1.0) if self._all else overlaps.max(axis=1, initial=0.0)
        if not len(self._boxes):
            least = np.ones(count)
        return [_Window(*each) for each in zip(anchors, shapes, kept, least.tolist(), strict=True)]

    def _shapes(self, generator: np.random.Generator, count: int) -> Array:
        if self._crop is not None:
            return np.broadcast_to(self._crop / self._extents, (count, self._axes))
        low, high = self._scaling
        shapes = generator.uniform(low, high, (count, self._axes))
        if (self._ratios[:, 0] < self._ratios[:, 1]).all():
            pool = shapes[self._in_ratio(shapes)]
            for _ in range(_DRAWS):
                if len(pool) >= count:
                    return pool[:count]
                more = generator.uniform(low, high, (8 * count, self._axes))
                pool = np.concatenate([pool, more[self._in_ratio(more)]])
            shapes[: len(pool)] = pool
        for number, (first, second) in enumerate(_pairs(self._axes)):
            least, most = self._ratios[number]
            scale = self._extents[second] / self._extents[first]
            narrow = shapes[:, first] < shapes[:, second] * least * scale
            shapes[narrow, first] = (shapes[:, second] * least * scale)[narrow]
            wide = shapes[:, first] > shapes[:, second] * most * scale
            shapes[wide, second] = (shapes[:, first] / (most * scale))[wide]
        largest = shapes.max(axis=1, keepdims=True)
        return np.where(largest > 1, shapes / largest, shapes)

    def _in_ratio(self, shapes: Array) -> Array:
        pixels = shapes * self._extents
        fits = np.ones(len(shapes), bool)
        for number, (first, second) in enumerate(_pairs(self._axes)):
            least, most = self._ratios[number]
            ratio = pixels[:, first] / np.maximum(pixels[:, second], 1e-30)
            fits &= (ratio >= least) & (ratio <= most)
        return fits


def _pairs(axes: int) -> list[tuple[int, int]]:
    return [(0, 1)] if axes == 2 else [(0, 1), (0, 2), (1, 2)]


def _ratios(given: Sequence[float], axes: int) -> Array:
    count = len(_pairs(axes))
    if len(given) not in (2, 2 * count):
        raise ArgumentValueError(f"argument 'aspect_ratio' needs 2 values{' or 6' * (axes == 3)}, it has {len(given)}")
    made: Array = np.resize(np.array(given, np.float64), (count, 2))
    if (made[:, 0] > made[:, 1]).any() or (made <= 0).any():
        raise ArgumentValueError(f"argument 'aspect_ratio' must be ranges of positive numbers, it is {list(given)}")
    return made


@implements(RANDOM_BBOX_CROP, "cpu")
class RandomBBoxCropCpu(BatchOperator):
    """A generator a sample, so that no sample depends on how often another one was drawn."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        given = node.argument
        scaling = given("scaling")
        if len(scaling) != 2 or not 0 <= scaling[0] <= scaling[1] <= 1:
            raise ArgumentValueError(f"argument 'scaling' must be a range within 0 to 1, it is {list(scaling)}")
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
        arguments = batch.arguments(self.node)
        seeds = batch.generator(self.node).integers(0, 1 << 63, batch.size)
        rows = []
        for sample in range(batch.size):
            try:
                given = [np.asarray(value.samples[sample]) for value in inputs]
                rows.append(self._crop(arguments, sample, int(seeds[sample]), given))
            except PipelineError as error:
                raise OperatorError.type_for(error)(str(error), failures=(SampleFailure(sample, error),)) from error
        return [TensorListCPU(list(column)) for column in zip(*rows, strict=True)]

    def _crop(self, arguments: Arguments, sample: int, seed: int, given: Sequence[Array]) -> list[Array]:
        boxes = given[0].astype(np.float64)
        if boxes.ndim != 2 or boxes.shape[1] not in (4, 6):
            raise ArgumentValueError(f"boxes must be of shape (M, 4) or (M, 6), not {boxes.shape}")
        axes = boxes.shape[1] // 2
        order = self._layout(axes)
        boxes = order.read(boxes)
        if len(boxes) and not (boxes.min() >= -_SLACK and boxes.max() <= 1 + _SLACK):
            raise ArgumentValueError("boxes must lie within the picture, 0 to 1; is 'bbox_layout' right?")
        extents, crop = (self._extents(arguments, name, axes, sample) for name in ("input_shape", "crop_shape"))
        pixels = np.ones(axes) if extents is None else extents
        window, fits = _Cropping(self.node, boxes, pixels, crop).draw(np.random.Generator(np.random.Philox(seed)))
        if not fits and not self.node.argument("quiet"):
            warnings.warn(
                "fn.random_bbox_crop: no window fits after total_num_attempts; the best one is taken", stacklevel=2
            )
        scale = pixels if crop is not None else np.ones(axes)
        kept = np.arange(len(boxes))
        anchor, shape = np.zeros(axes), np.ones(axes)
        if window is not None:
            kept, anchor, shape = np.flatnonzero(window.kept), window.anchor, window.shape
            boxes = np.clip((boxes[kept] - np.tile(anchor, 2)) / np.tile(shape, 2), 0, 1)
        made = [(anchor * scale).astype(np.float32), (shape * scale).astype(np.float32)]
        if crop is not None:
            made = [np.rint(each) for each in made]
        made.append(order.write(boxes).astype(np.float32))
        if len(given) > 1:
            if len(given[1]) != len(given[0]):
                raise ArgumentValueError(f"{len(given[1])} labels for {len(given[0])} boxes")
            made.append(given[1][kept])
        if self.node.argument("output_bbox_indices"):
            made.append(kept.astype(np.int32))
        return made

    def _layout(self, axes: int) -> _Order:
        default = (
            ("xyXY" if axes == 2 else "xyzXYZ") if self.node.argument("ltrb") else ("xyWH" if axes == 2 else "xyzWHD")
        )
        return _Order(self.node.argument("bbox_layout") or default, axes)

    def _extents(self, arguments: Arguments, name: str, axes: int, sample: int) -> Array | None:
        rows = arguments.rows(name)
        if rows is None:
            return None
        layout = self.node.argument("shape_layout") or "WHD"[:axes]
        if sorted(layout) != sorted("WHD"[:axes]):
            raise ArgumentValueError(f"argument 'shape_layout' must name {', '.join('WHD'[:axes])}, it is {layout!r}")
        row = rows[sample]
        if len(row) < axes:
            raise ArgumentValueError(f"argument {name!r} needs {axes} values, it has {len(row)}")
        return np.array([row[layout.index(letter)] for letter in "WHD"[:axes]])


class _Order:
    """How boxes are written: the order of their coordinates, with the far corner or with extents."""

    def __init__(self, layout: str, axes: int) -> None:
        low, far, extents = "xyz"[:axes], "XYZ"[:axes], "WHD"[:axes]
        self._extents = set(layout) == set(low + extents)
        names = low + (extents if self._extents else far)
        if sorted(layout) != sorted(names):
            raise ArgumentValueError(
                f"argument 'bbox_layout' must name {low + far} or {low + extents}, it is {layout!r}"
            )
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
