"""Draws random windows that keep boxes, for a whole batch at once."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dali_proxy.pipeline._imaging.native import compiled
from dali_proxy.pipeline._rng import philox
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU

# Number of windows that are drawn for each sample in the first step. It doubles with each step up to the maximum.
_FIRST_COUNT, _MAX_COUNT = 4, 32
# Shapes that are drawn for a window until an aspect ratio fits. If none does, more are drawn; then a side is stretched.
_DRAWS, _MORE_DRAWS = 16, 128
# Numbers of a block of the generator, which can begin at any block of its sequence.
_BLOCK = 4
# A sample's numbers are drawn separately if the batch has at least as many samples for each that still needs a window.
_FEW = 8


def check_ratios(ratios: Sequence[float], axes: int) -> Array:
    """Return the range of aspect ratios of each pair of axes, as (pairs, 2).

    Raises:
        ArgumentValueError: There is a wrong number of values, or they aren't ranges of positive numbers.
    """
    count = len(_pairs(axes))
    if len(ratios) not in (2, 2 * count):
        raise ArgumentValueError(
            f"argument 'aspect_ratio' needs 2 values{' or 6' * (axes == 3)}, but has {len(ratios)}"
        )
    ranges: Array = np.resize(np.array(ratios, np.float64), (count, 2))
    if (ranges[:, 0] > ranges[:, 1]).any() or (ranges <= 0).any():
        raise ArgumentValueError(f"argument 'aspect_ratio' must be ranges of positive numbers, not {list(ratios)}")
    return ranges


def _pairs(axes: int) -> list[tuple[int, int]]:
    return [(0, 1)] if axes == 2 else [(0, 1), (0, 2), (1, 2)]


@dataclass(frozen=True)
class Windows:
    """The windows of a batch.

    Attributes:
        anchors: first corners as fractions of the image, (N, D).
        shapes: extents as fractions of the image, (N, D).
        kept: mask of the boxes that the windows keep, (M,).
        boxes: these boxes, relative to their windows and cut off at the edges, (sum of counts, 2 D).
        counts: number of boxes that each window keeps, (N,).
        fits: whether each window overlaps the boxes by its threshold.
    """

    anchors: Array
    shapes: Array
    kept: Array
    boxes: Array
    counts: Array
    fits: bool

    def select(self, labels: TensorListCPU) -> TensorListCPU:
        """Return the labels of the boxes that are kept."""
        packed = labels.rows()
        if packed is not None:
            return TensorListCPU.from_rows(packed[0][self.kept], self.counts)
        ends = np.cumsum([len(own) for own in labels.samples])[:-1]
        return TensorListCPU([own[mask] for own, mask in zip(labels.samples, np.split(self.kept, ends), strict=True)])


@dataclass(frozen=True)
class BoxWindows:
    """Draws windows.

    The random numbers of a sample depend on the key, on the number of windows drawn for the sample, and on its
    position in the batch. They don't depend on how soon another sample got its window.

    Attributes:
        thresholds: smallest overlaps; one of them is drawn.
        whole: whether the whole image is one of the choices.
        iou: whether overlap means intersection over union with the window; otherwise the fraction of the box that is
            inside.
        every: whether all boxes must overlap by the threshold, not only one.
        prune: smallest fraction of a box that must be inside to keep the box; None keeps boxes whose centre is inside.
        scaling: smallest and largest extents.
        ratios: result of `check_ratios`.
        attempts: number of windows drawn for a threshold before another threshold is drawn.
        total: largest number of windows drawn for a sample; no limit unless it is positive.
        redraw: whether shapes are drawn again until their aspect ratio fits; otherwise a window whose ratio doesn't
            fit is an attempt that failed.
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
    redraw: bool = True

    def draw(
        self, key: Array, boxes: Array, counts: Array, extents: Array | None = None, crop: Array | None = None
    ) -> Windows:
        """Draw a window for each sample.

        Args:
            key: key of the random numbers, two words.
            boxes: float64 boxes as fractions of the image, low corners before high corners, (M, 2 D), those of one
                sample after those of another.
            counts: number of boxes of each sample, (N,).
            extents: extents of the images in pixels, (N, D); None for squares.
            crop: extents of the windows in pixels, (N, D); None draws them.
        """
        return (
            self._draw_in_numpy(key, boxes, counts, extents, crop)
            if compiled is None
            else self._draw_compiled(key, boxes, counts, extents, crop)
        )

    @property
    def _draws(self) -> int:
        return _DRAWS if self.redraw else 1

    def _draw_compiled(
        self, key: Array, boxes: Array, counts: Array, extents: Array | None, crop: Array | None
    ) -> Windows:
        """Do the same as `_draw_in_numpy`. It computes only those numbers that it uses."""
        assert compiled is not None
        anchors, shapes = np.empty((2, len(counts), boxes.shape[1] // 2))
        moved, kept, kept_counts = np.empty(boxes.shape), np.empty(len(boxes), bool), np.empty(len(counts), np.int64)
        total, fits = compiled.draw_windows(
            (*self.scaling, np.nan if self.prune is None else self.prune),
            (self._draws, self.attempts, self.total, self.whole, self.iou, self.every, self.redraw),
            *(key, np.ascontiguousarray(boxes), np.ascontiguousarray(counts, np.int64)),
            *(b"" if each is None else np.ascontiguousarray(each, np.float64) for each in (extents, crop)),
            *(np.array(self.thresholds, np.float64), self.ratios, anchors, shapes, moved, kept, kept_counts),
        )
        return Windows(anchors, shapes, kept, moved[:total], kept_counts, fits)

    def _draw_in_numpy(
        self, key: Array, boxes: Array, counts: Array, extents: Array | None, crop: Array | None
    ) -> Windows:
        count, axes = len(counts), boxes.shape[1] // 2
        present = np.arange(counts.max()) < counts[:, None]
        padded = np.zeros((*present.shape, 2 * axes))
        padded[present] = boxes
        extents = np.ones((count, axes)) if extents is None else extents
        state = _State(
            *(padded, present, extents, crop, np.zeros((count, axes)), np.ones((count, axes)), present.copy()),
            *(np.zeros(count, bool), np.full(count, -1.0), np.zeros(count, np.int64)),
        )
        left, begin, size = np.arange(count), 0, _FIRST_COUNT
        for step in itertools.count():
            size = min(size, self.total - begin) if self.total > 0 else size
            self._try(state, left, _Numbers(key, step, count, size), begin)
            left, begin = left[~state.fits[left]], begin + size
            if not len(left) or begin == self.total:
                break
            size = min(2 * size, _MAX_COUNT)
        kept_counts = np.count_nonzero(state.kept, axis=1)
        corners = (np.concatenate([each] * 2, axis=1) for each in (state.anchors, state.shapes))
        origin, extent = (np.repeat(each, kept_counts, axis=0) for each in corners)
        moved = ((padded[state.kept] - origin) / extent).clip(0, 1)
        return Windows(state.anchors, state.shapes, state.kept[present], moved, kept_counts, bool(state.fits.all()))

    def _try(self, state: _State, left: Array, numbers: _Numbers, begin: int) -> None:
        """Draw windows for the samples `left`, and keep the first one of each that fits, or the best one.

        `begin` windows were drawn before.
        """
        extents, present, best, crop = state.extents, state.present, state.best, state.crop
        axes, draws, size = extents.shape[1], self._draws, numbers.windows
        drawn = numbers.draw(0, left, 1 + axes * (1 + draws))
        choices = self._choices(drawn[..., 0], begin, state.choice[left])
        state.choice[left] = choices[:, -1]
        pixels = np.broadcast_to(extents[left, None], (len(left), size, axes))
        if crop is None:
            shapes, narrow = self._shapes(drawn[..., 1 + axes :].reshape(len(left), size, draws, axes), pixels)
            wrong = narrow & (not self.redraw)
            if self.redraw and narrow.any():
                few = narrow.any(axis=1)
                more = numbers.draw(1, left[few], _MORE_DRAWS * axes).reshape(-1, size, _MORE_DRAWS, axes)
                shapes[narrow], _ = self._shapes(more[narrow[few]], pixels[narrow])
            shapes = self._stretched(shapes, pixels)
            anchors = drawn[..., 1 : 1 + axes] * (1 - shapes)
        else:
            room = pixels - crop[left, None]
            low, high = np.minimum(room, 0), np.maximum(room, 0)
            anchors = (low + np.floor(drawn[..., 1 : 1 + axes] * (high - low + 1))) / pixels
            shapes = np.broadcast_to(crop[left, None] / pixels, anchors.shape)
            wrong = np.zeros((len(left), size), bool)
        overlaps, kept = self._overlaps(state.boxes[left], present[left], anchors, shapes)

        whole = choices == len(self.thresholds)
        anchors, shapes = np.where(whole[..., None], 0, anchors), np.where(whole[..., None], 1, shapes)
        kept = np.where(whole[..., None], present[left, None], kept)
        keeps_any: Array = np.any(kept, axis=2)
        enough = (overlaps >= np.append(self.thresholds, 0)[choices]) & ~wrong
        fits = whole | (enough & (keeps_any | ~np.any(present[left], axis=1, keepdims=True)))
        done = fits.any(axis=1)
        score = 2 * keeps_any + overlaps  # a window that keeps a box is better than one that keeps none
        chosen = np.where(done, fits.argmax(axis=1), score.argmax(axis=1))
        rows = np.arange(len(left))
        better = done | (score[rows, chosen] > best[left])
        rows, chosen, target = rows[better], chosen[better], left[better]
        state.anchors[target], state.shapes[target] = anchors[rows, chosen], shapes[rows, chosen]
        state.kept[target], best[target] = kept[rows, chosen], score[rows, chosen]
        state.fits[left[done]] = True

    def _choices(self, numbers: Array, begin: int, current: Array) -> Array:
        """Return the index of each window's threshold; the number of thresholds stands for the whole image."""
        drawn = (numbers * (len(self.thresholds) + self.whole)).astype(np.intp)
        positions = np.arange(numbers.shape[1])
        since = np.maximum.accumulate(np.where((begin + positions) % self.attempts == 0, positions, -1))
        return np.where(since >= 0, drawn[:, since], current[:, None])

    def _shapes(self, numbers: Array, pixels: Array) -> tuple[Array, Array]:
        """Return the first extents whose aspect ratio fits, (..., D), and a mask of the windows for which none fits.

        Args:
            numbers: random numbers from 0 to 1, (..., draws, D).
            pixels: extents of the images, (..., D).
        """
        low, high = self.scaling
        drawn = low + (high - low) * numbers
        if (self.ratios[:, 0] == self.ratios[:, 1]).any():  # no drawn ratio would fit exactly
            return drawn[..., 0, :], np.zeros(drawn.shape[:-2], bool)
        inside = drawn * pixels[..., None, :]
        fits = np.ones(drawn.shape[:-1], bool)
        for (first, second), (least, most) in zip(_pairs(drawn.shape[-1]), self.ratios, strict=True):
            fits &= (inside[..., first] >= least * inside[..., second]) & (
                inside[..., first] <= most * inside[..., second]
            )
        flat = drawn.reshape(-1, *drawn.shape[-2:])
        shapes: Array = flat[np.arange(len(flat)), fits.argmax(axis=-1).reshape(-1)].reshape(*pixels.shape)
        missing: Array = ~np.any(fits, axis=-1)
        return shapes, missing

    def _stretched(self, shapes: Array, pixels: Array) -> Array:
        """Return the extents, stretched where their aspect ratio didn't fit."""
        result = shapes.copy()
        for (first, second), (least, most) in zip(_pairs(shapes.shape[-1]), self.ratios, strict=True):
            scale = pixels[..., second] / pixels[..., first]
            result[..., first] = np.maximum(result[..., first], result[..., second] * least * scale)
            result[..., second] = np.maximum(result[..., second], result[..., first] / (most * scale))
        largest = result.max(axis=-1, keepdims=True)
        return np.where(largest > 1, result / largest, result)

    def _overlaps(self, boxes: Array, present: Array, anchors: Array, shapes: Array) -> tuple[Array, Array]:
        """Return the decisive overlap of each window, (N, K), and a mask of the boxes that it keeps, (N, K, M)."""
        axes = anchors.shape[-1]
        common: Any = 1.0
        sizes: Any = 1.0
        kept: Any = True
        ends = anchors + shapes
        for axis in range(axes):  # much faster than operations along the short last dimension
            low, high = boxes[:, None, :, axis], boxes[:, None, :, axes + axis]
            near, far = anchors[:, :, axis, None], ends[:, :, axis, None]
            common = common * np.maximum(np.minimum(high, far) - np.maximum(low, near), 0)
            sizes = sizes * (high - low)
            if self.prune is None:
                center = (low + high) / 2
                kept = kept & (center >= near) & (center <= far)
        with np.errstate(invalid="ignore", divide="ignore"):
            overlaps = fractions = np.where(sizes > 0, common / sizes, 0)
            if self.iou:
                union = sizes + np.prod(shapes, axis=-1)[..., None] - common
                overlaps = np.where(union > 0, common / union, 0)
        if self.prune is not None:
            kept = (fractions >= self.prune) & (common > 0)
        real = np.broadcast_to(present[:, None], overlaps.shape)
        if self.every:
            return overlaps.min(axis=2, initial=1.0, where=real), kept & real
        most = overlaps.max(axis=2, initial=0.0, where=real)
        return np.where(np.any(present, axis=1, keepdims=True), most, 1.0), kept & real


@dataclass(frozen=True)
class _State:
    """The samples of a batch, and their best windows so far.

    Attributes:
        boxes: boxes, (N, M, 2 D). Samples with fewer than M boxes are padded.
        present: mask of the boxes that aren't padding, (N, M).
        extents, crop: arguments of `BoxWindows.draw`.
        anchors, shapes: see `Windows`.
        kept: mask of the boxes that each window keeps, (N, M).
        fits: whether each window fits, (N,).
        best: scores of the windows, (N,).
        choice: threshold of the last window of each sample, (N,).
    """

    boxes: Array
    present: Array
    extents: Array
    crop: Array | None
    anchors: Array
    shapes: Array
    kept: Array
    fits: Array
    best: Array
    choice: Array


@dataclass(frozen=True)
class _Numbers:
    """The random numbers of one step, from 0 to 1.

    Attributes:
        key: key of the generator.
        step: number of the step.
        samples: number of samples of the batch, which follow one another in the generator's sequence.
        windows: number of windows of each sample.
    """

    key: Array
    step: int
    samples: int
    windows: int

    def draw(self, stage: int, samples: Array, count: int) -> Array:
        """Return `count` numbers for each window of some samples in ascending order, (samples, windows, count).

        `stage` is the number of the use within the step.
        """

        def drawn(first: int, number: int) -> Array:
            generator = philox(self.key, [first * each // _BLOCK, 0, self.step, stage])
            return generator.random((number, self.windows, count))

        each = self.windows * count
        if len(samples) * _FEW > self.samples or each % _BLOCK:
            numbers = drawn(0, self.samples)
            return numbers if len(samples) == self.samples else numbers[samples]
        return np.concatenate([drawn(sample, 1) for sample in samples.tolist()])
