"""Random windows that keep boxes, drawn for a whole batch at once."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.errors import ArgumentValueError
from pipeline.tensors.cpu import Array

__all__ = ["BoxWindows", "Windows", "check_ratios"]

# Windows that are drawn for each sample and looked at together at first; twice as many each time, but not more than...
_FEW, _MANY = 4, 32
# How often the shape of a window is drawn until its aspect ratio fits; then more often; then a side is stretched.
_DRAWS, _MORE_DRAWS = 16, 128


def check_ratios(given: Sequence[float], axes: int) -> Array:
    """Return the range of the aspect ratio of each pair of axes, as (pairs, 2).

    Raises:
        ArgumentValueError: for a wrong number of them, or no ranges of positive numbers.
    """
    count = len(_pairs(axes))
    if len(given) not in (2, 2 * count):
        raise ArgumentValueError(f"argument 'aspect_ratio' needs 2 values{' or 6' * (axes == 3)}, but has {len(given)}")
    made: Array = np.resize(np.array(given, np.float64), (count, 2))
    if (made[:, 0] > made[:, 1]).any() or (made <= 0).any():
        raise ArgumentValueError(f"argument 'aspect_ratio' must be ranges of positive numbers, not {list(given)}")
    return made


def _pairs(axes: int) -> list[tuple[int, int]]:
    return [(0, 1)] if axes == 2 else [(0, 1), (0, 2), (1, 2)]


@dataclass(frozen=True)
class Windows:
    """The windows of a batch.

    Attributes:
        anchors: (N, D), as fractions of the picture.
        shapes: (N, D), likewise.
        kept: (N, M), which boxes a window keeps.
        fits: (N,), whether the window overlaps the boxes by the threshold.
    """

    anchors: Array
    shapes: Array
    kept: Array
    fits: Array


@dataclass(frozen=True)
class BoxWindows:
    """How windows are drawn.

    A sample's numbers are a function of the generator, of how many windows were drawn for it, and of its place in the
    batch: they don't depend on how soon another one had its window.

    Attributes:
        thresholds: least overlaps, one of which is drawn.
        whole: whether the whole picture is one of the choices.
        iou: whether an overlap is intersection over union with the window; else the part of the box that is inside.
        every: whether all boxes must overlap as much, not only one.
        prune: keep boxes of which that part is inside; None keeps those whose centre is.
        scaling: least and largest extents.
        ratios: what `check_ratios` returned.
        attempts: windows drawn for a threshold before another one is drawn.
        total: windows drawn at most; without a limit where it isn't positive.
    """

    thresholds: Sequence[float]
    whole: bool
    iou: bool
    every: bool
    prune: float | None
    scaling: tuple[float, float]
    ratios: Array
    attempts: int
    total: int

    def draw(
        self, generator: np.random.Generator, boxes: Array, present: Array, extents: Array, crop: Array | None
    ) -> Windows:
        """Draw a window for each sample.

        Args:
            generator: of the batch.
            boxes: (N, M, 2 D), lows before highs, as fractions; samples with less than M are padded.
            present: (N, M), which of them are there.
            extents: (N, D), of the pictures in pixels, or ones.
            crop: (N, D), of the windows in pixels; None draws them.
        """
        count, axes = extents.shape
        key = generator.integers(0, 1 << 64, 2, dtype=np.uint64)
        made = Windows(np.zeros((count, axes)), np.ones((count, axes)), present.copy(), np.zeros(count, bool))
        best = np.full(count, -1.0)
        choice = np.zeros(count, np.intp)
        left, begin, size = np.arange(count), 0, _FEW
        for step in itertools.count():
            size = min(size, self.total - begin) if self.total > 0 else size
            numbers = _numbers(key, step, 0, (count, size, 1 + axes * (1 + _DRAWS)))[left]
            choices = self._choices(numbers[..., 0], begin, choice[left])
            choice[left] = choices[:, -1]
            pixels = np.broadcast_to(extents[left, None], (len(left), size, axes))
            if crop is None:
                shapes, narrow = self._shapes(numbers[..., 1 + axes :].reshape(len(left), size, _DRAWS, axes), pixels)
                if narrow.any():
                    more = _numbers(key, step, 1, (count, size, _MORE_DRAWS, axes))[left]
                    shapes[narrow], _ = self._shapes(more[narrow], pixels[narrow])
                shapes = self._stretched(shapes, pixels)
                anchors = numbers[..., 1 : 1 + axes] * (1 - shapes)
            else:
                room = pixels - crop[left, None]
                low, high = np.minimum(room, 0), np.maximum(room, 0)
                anchors = (low + np.floor(numbers[..., 1 : 1 + axes] * (high - low + 1))) / pixels
                shapes = np.broadcast_to(crop[left, None] / pixels, anchors.shape)
            overlaps, kept = self._overlaps(boxes[left], present[left], anchors, shapes)

            whole = choices == len(self.thresholds)
            anchors, shapes = np.where(whole[..., None], 0, anchors), np.where(whole[..., None], 1, shapes)
            kept = np.where(whole[..., None], present[left, None], kept)
            some: Array = np.any(kept, axis=2)
            enough = overlaps >= np.append(self.thresholds, 0)[choices]
            fits = whole | (enough & (some | ~np.any(present[left], axis=1, keepdims=True)))
            done = fits.any(axis=1)
            score = 2 * some + overlaps  # a window that keeps a box is better than one that keeps none
            taken = np.where(done, fits.argmax(axis=1), score.argmax(axis=1))
            rows = np.arange(len(left))
            better = done | (score[rows, taken] > best[left])
            rows, taken, target = rows[better], taken[better], left[better]
            made.anchors[target], made.shapes[target] = anchors[rows, taken], shapes[rows, taken]
            made.kept[target], best[target] = kept[rows, taken], score[rows, taken]
            made.fits[left[done]] = True
            left, begin = left[~done], begin + size
            if not len(left) or begin == self.total:
                return made
            size = min(2 * size, _MANY)
        raise AssertionError("unreachable")

    def _choices(self, numbers: Array, begin: int, current: Array) -> Array:
        """Return which threshold each window has, or how many there are for the whole picture."""
        drawn = (numbers * (len(self.thresholds) + self.whole)).astype(np.intp)
        places = np.arange(numbers.shape[1])
        since = np.maximum.accumulate(np.where((begin + places) % self.attempts == 0, places, -1))
        return np.where(since >= 0, drawn[:, since], current[:, None])

    def _shapes(self, numbers: Array, pixels: Array) -> tuple[Array, Array]:
        """Return the first extents whose aspect ratio fits, (..., D), and where none did.

        Args:
            numbers: (..., draws, D), from 0 to 1.
            pixels: (..., D), extents of the pictures.
        """
        low, high = self.scaling
        drawn = low + (high - low) * numbers
        if (self.ratios[:, 0] == self.ratios[:, 1]).any():  # none would fit
            return drawn[..., 0, :], np.zeros(drawn.shape[:-2], bool)
        inside = drawn * pixels[..., None, :]
        fits = np.ones(drawn.shape[:-1], bool)
        for (first, second), (least, most) in zip(_pairs(drawn.shape[-1]), self.ratios, strict=True):
            fits &= (inside[..., first] >= least * inside[..., second]) & (
                inside[..., first] <= most * inside[..., second]
            )
        taken = fits.argmax(axis=-1)[..., None, None]
        shapes: Array = np.take_along_axis(drawn, taken, axis=-2)[..., 0, :]
        missing: Array = ~np.any(fits, axis=-1)
        return shapes, missing

    def _stretched(self, shapes: Array, pixels: Array) -> Array:
        """Return extents whose aspect ratio is mended where it didn't fit."""
        made = shapes.copy()
        for (first, second), (least, most) in zip(_pairs(shapes.shape[-1]), self.ratios, strict=True):
            scale = pixels[..., second] / pixels[..., first]
            made[..., first] = np.maximum(made[..., first], made[..., second] * least * scale)
            made[..., second] = np.maximum(made[..., second], made[..., first] / (most * scale))
        largest = made.max(axis=-1, keepdims=True)
        fitting: Array = np.where(largest > 1, made / largest, made)
        return fitting

    def _overlaps(self, boxes: Array, present: Array, anchors: Array, shapes: Array) -> tuple[Array, Array]:
        """Return the overlap of each window that counts, (N, K), and which boxes it keeps, (N, K, M)."""
        axes = anchors.shape[-1]
        low, high = boxes[:, None, :, :axes], boxes[:, None, :, axes:]
        near, far = anchors[:, :, None], (anchors + shapes)[:, :, None]
        common = np.prod(np.maximum(np.minimum(high, far) - np.maximum(low, near), 0), axis=-1)
        sizes = np.prod(high - low, axis=-1)
        with np.errstate(invalid="ignore", divide="ignore"):
            overlaps = parts = np.nan_to_num(common / sizes)
            if self.iou:
                overlaps = np.nan_to_num(common / (sizes + np.prod(shapes, axis=-1)[..., None] - common))
        if self.prune is None:
            centers = (low + high) / 2
            kept = ((centers >= near) & (centers <= far)).all(axis=-1)
        else:
            kept = (parts >= self.prune) & (common > 0)
        there = np.broadcast_to(present[:, None], overlaps.shape)
        if self.every:
            return overlaps.min(axis=2, initial=1.0, where=there), kept & there
        most = overlaps.max(axis=2, initial=0.0, where=there)
        return np.where(np.any(present, axis=1, keepdims=True), most, 1.0), kept & there


def _numbers(key: Array, step: int, stage: int, shape: tuple[int, ...]) -> Array:
    """Return numbers from 0 to 1, of one step of the drawing."""
    philox = np.random.Philox(key=key, counter=np.array([0, 0, step, stage], np.uint64))
    return np.random.Generator(philox).random(shape)
