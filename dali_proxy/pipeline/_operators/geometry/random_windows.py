"""Random windows by area and aspect ratio, as for training on ImageNet: arguments and drawing for all operators."""

from __future__ import annotations

import math

import numpy as np

from dali_proxy.pipeline._arrays import Int64s
from dali_proxy.pipeline._cached_property import cached_property
from dali_proxy.pipeline._declaration import Argument, Kind
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._imaging.native import compiled
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array

RANDOM_CROP_ARGUMENTS = (
    Argument("random_area", Kind.FLOATS, "Range of the window's area, as a fraction of the image's.", (0.08, 1.0)),
    Argument(
        "random_aspect_ratio",
        Kind.FLOATS,
        "Range of the window's width / height; its logarithm is distributed uniformly.",
        (3 / 4, 4 / 3),
    ),
    Argument(
        "num_attempts",
        Kind.INT,
        "Number of attempts to draw an area and an aspect ratio whose window, in whole pixels, fits the image and the "
        "range of aspect ratios; if all fail, the largest window that fits is used.",
        10,
    ),
)

#: What operators with these arguments draw: see `OperatorSchema.draws`.
WINDOW_DRAWS = ("anchor (y, x)", "shape (height, width)")

# Aspect ratios are compared with the precision of float32: 4 / 3 is within 1.3333334.
_LESS, _MORE = 1 - 2**-23, 1 + 2**-23


class RandomWindows:
    """The random windows of a batch, for an operator with `RANDOM_CROP_ARGUMENTS`.

    Random numbers are drawn when the object is created, windows are chosen when the sizes of the images are known.
    Every sample consumes the same count of numbers. Therefore the window of a sample depends on its position and its
    image, but neither on the size of the batch nor on other images.

    Raises:
        ArgumentValueError: A range is invalid.
    """

    def __init__(self, node: GraphNode, batch: Batch) -> None:
        low_area, high_area = _range(node, "random_area")
        low_ratio, _ = self._ratios = _range(node, "random_aspect_ratio")
        if low_ratio <= 0:
            raise ArgumentValueError(f"argument 'random_aspect_ratio' must be positive, not {low_ratio:g}")
        attempts = max(0, node.argument("num_attempts"))
        self._largest_area = high_area
        drawn = batch.uniform(node, 2 * attempts + 2)
        self._areas = low_area, high_area
        self._drawn = drawn
        self._count = attempts
        self._offsets = drawn[:, -2:]  # relative offsets in the space around the window
        self._windows: Int64s | None = None  # those that were chosen, if someone asks for them
        if batch.request.drawn is not None:
            self._windows = np.zeros((batch.size, 4), np.int64)
            batch.note_draws(node, self._windows[:, :2], self._windows[:, 2:])

    @cached_property
    def _rows(self) -> list[tuple[list[float], list[float], list[float]]]:
        attempts = self._attempts(slice(None), slice(None))
        return list(zip(*(table.tolist() for table in (*attempts, self._offsets)), strict=True))

    def _attempts(self, rows: slice | Int64s, columns: slice) -> tuple[Array, Array]:
        """Return the heights and widths of some attempts of some samples, for images of area 1."""
        low_area, high_area = self._areas
        low, high = map(math.log, self._ratios)
        area = np.maximum(low_area + self._drawn[rows, : self._count][:, columns] * (high_area - low_area), 0)
        ratio = np.exp(low + self._drawn[rows, self._count : -2][:, columns] * (high - low))
        return np.sqrt(area / ratio), np.sqrt(area * ratio)

    def choose(self, sample: int, height: int, width: int) -> tuple[int, int, int, int]:
        """Return the window (y, x, height, width) of a sample, in pixels; an empty one for an empty image."""
        window = self._choose(sample, height, width)
        if self._windows is not None:
            self._windows[sample] = window
        return window

    def _choose(self, sample: int, height: int, width: int) -> tuple[int, int, int, int]:
        if height <= 0 or width <= 0:
            return 0, 0, 0, 0
        low, high = self._ratios
        unit = math.sqrt(height * width)
        heights, widths, (at_y, at_x) = self._rows[sample]
        for tall, wide in zip(heights, widths, strict=True):
            h, w = max(1, int(tall * unit + 0.5)), max(1, int(wide * unit + 0.5))
            if h <= height and w <= width and low * _LESS <= w / h <= high * _MORE:
                break
        else:
            h, w = self._fitting(height, width)
        return int(at_y * (height - h + 1)), int(at_x * (width - w + 1)), h, w

    def choose_all(self, heights: Int64s, widths: Int64s) -> Int64s:
        """Return the windows of all samples, (N, 4), as `choose` returns them, for heights and widths, (N,) each."""
        windows = self._choose_all(heights, widths)
        if self._windows is not None:
            self._windows[:] = windows
        return windows

    def _choose_all(self, heights: Int64s, widths: Int64s) -> Int64s:
        windows = np.empty((len(heights), 4), np.int64)
        if compiled is not None:
            sizes = np.empty((len(heights), 2), np.int64)
            sizes[:, 0], sizes[:, 1] = heights, widths
            low, high = self._ratios
            logarithms = math.log(low), math.log(high)
            drawn = np.ascontiguousarray(self._drawn)
            compiled.choose_crops(drawn, sizes, self._areas, self._ratios, logarithms, windows)
            return windows
        windows[:, 2:] = self._first_fit(slice(None), heights, widths, slice(1))  # most first attempts fit
        others = np.flatnonzero(windows[:, 2] == 0)
        if len(others):
            windows[others, 2:] = self._first_fit(others, heights[others], widths[others], slice(1, None))
            for row in others[windows[others, 2] == 0].tolist():
                windows[row, 2:] = self._fitting(int(heights[row]), int(widths[row]))
        windows[:, 0] = self._offsets[:, 0] * (heights - windows[:, 2] + 1)
        windows[:, 1] = self._offsets[:, 1] * (widths - windows[:, 3] + 1)
        if len(others):
            windows[(heights <= 0) | (widths <= 0)] = 0
        return windows

    def _first_fit(self, rows: slice | Int64s, heights: Int64s, widths: Int64s, columns: slice) -> Int64s:
        """Return height and width of the first of some attempts that fits, (N, 2); zeros where none does."""
        low, high = self._ratios
        unit = np.sqrt(heights * widths)[:, None]
        tall, wide = (np.maximum(1, (each * unit + 0.5).astype(np.int64)) for each in self._attempts(rows, columns))
        if not tall.shape[1]:
            return np.zeros((len(heights), 2), np.int64)
        ratio = wide / tall
        fits = (tall <= heights[:, None]) & (wide <= widths[:, None])
        fits &= (low * _LESS <= ratio) & (ratio <= high * _MORE)
        chosen = np.arange(len(fits)), np.argmax(fits, axis=1)
        sizes = np.empty((len(fits), 2), np.int64)
        sizes[:, 0], sizes[:, 1] = tall[chosen], wide[chosen]
        sizes *= fits[chosen][:, None]
        return sizes

    def _fitting(self, height: int, width: int) -> tuple[int, int]:
        """Return the size of the largest window of an allowed aspect ratio, shrunk to the largest allowed area."""
        low, high = self._ratios
        h, w = height, width
        if w > h * high:
            w = max(1, int(h * high))
        elif w < h * low:
            h = max(1, int(w / low))
        area = max(self._largest_area, 0.0) * height * width
        if h * w > area:
            shrink = math.sqrt(area / (h * w))
            h, w = max(1, int(h * shrink)), max(1, int(w * shrink))
        return h, w


def _range(node: GraphNode, name: str) -> tuple[float, float]:
    values = node.argument(name)
    if len(values) not in (1, 2) or not all(map(math.isfinite, values)) or values[0] > values[-1]:
        raise ArgumentValueError(f"argument {name!r} must be a range (low, high), not {values!r}")
    return values[0], values[-1]
