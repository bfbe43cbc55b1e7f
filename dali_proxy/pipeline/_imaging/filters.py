"""Resampling filters, and their weights along one axis of an image.

An output pixel is a weighted sum of a few neighboring input pixels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._arrays import Bools, Float32s, Float64s, Int64s

# In DALI, all filters but the triangle are linearly interpolated tables with 32 entries per unit.
_TABLE_STEPS = 32


@dataclass(frozen=True)
class Filter:
    """Symmetric kernel: its values by distance in pixels, and the distance beyond which they are zero."""

    support: int
    values: Callable[[Float64s], Float64s]


def _triangle(x: Float64s) -> Float64s:
    return np.maximum(0.0, 1.0 - np.abs(x))


def _tabulated(support: int, function: Callable[[Float64s], Float64s]) -> Filter:
    steps = np.arange(-support * _TABLE_STEPS, support * _TABLE_STEPS + 1) / _TABLE_STEPS
    table = function(steps)

    def values(x: Float64s) -> Float64s:
        return np.where((x >= -support) & (x < support), np.interp(x, steps, table), 0.0)

    return Filter(support, values)


def _catmull_rom(x: Float64s) -> Float64s:
    x = np.abs(x)
    return np.where(x <= 1, (1.5 * x - 2.5) * x * x + 1, np.where(x < 2, ((2.5 - 0.5 * x) * x - 4) * x + 2, 0.0))


def _lanczos3(x: Float64s) -> Float64s:
    return np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0.0)


_LINEAR = Filter(1, _triangle)
_FILTERS = {
    "linear": _LINEAR,
    "triangular": _LINEAR,
    "cubic": _tabulated(2, _catmull_rom),
    "gaussian": _tabulated(1, lambda x: np.exp(-4 * x * x)),
    "lanczos3": _tabulated(3, _lanczos3),
}
# In the order of DALI's DALIInterpType.
_NAMES = ("nearest", "linear", "cubic", "lanczos3", "triangular", "gaussian")


def filter_name(interp: Any) -> str:
    """Return the name of an interpolation: ``"linear"`` for ``INTERP_LINEAR``, 1 or ``"linear"``.

    Raises:
        ValueError: the interpolation is unknown.
    """
    if isinstance(interp, str):
        name = interp.lower().removeprefix("interp_")
        name = "nearest" if name == "nn" else name
        if name in _NAMES:
            return name
    elif 0 <= int(interp) < len(_NAMES):
        return _NAMES[int(interp)]
    raise ValueError(f"unknown interpolation {interp!r}; known are {', '.join(_NAMES)}")


def plan_taps(
    extent: int, size: int, low: float, high: float, name: str, antialias: bool
) -> tuple[int, int, npt.NDArray[np.int32], Float32s]:
    """Plan the resampling of one axis, output by output.

    Args:
        extent: number of input pixels. Taps outside use the nearest edge pixel.
        size: number of outputs.
        low: begin of the first output's window, in input pixels from the edge of pixel 0.
        high: end of the last output's window; a value less than `low` flips the axis.
        name: name of the filter from `filter_name`, except ``"nearest"``.
        antialias: whether to widen the filter if the axis shrinks.

    Returns:
        The first and the last (exclusive) input pixel that the outputs read; relative to them, each output's first
        input, of shape (size,), and the weights from that input on, of shape (size, taps).
    """
    first, last = _inputs_that_matter(extent, size, low, high, name, antialias)
    return first, last, *_compact_taps(last - first, size, low - first, high - first, name, antialias)


def _inputs_that_matter(extent: int, size: int, low: float, high: float, name: str, antialias: bool) -> tuple[int, int]:
    # With relative positions, windows in different regions of the image share a plan, unless an edge is near.
    stretch = max(1.0, abs(high - low) / size) if antialias else 1.0
    reach = _FILTERS[name].support * stretch + 1.0
    first = min(max(math.floor(min(low, high) - reach), 0), extent - 1)
    return first, max(min(math.ceil(max(low, high) + reach), extent), first + 1)


@lru_cache(maxsize=4096)
def _compact_taps(
    extent: int, size: int, low: float, high: float, name: str, antialias: bool
) -> tuple[npt.NDArray[np.int32], Float32s]:
    indices, weights = _taps(extent, size, low, high, name, antialias)
    keep = weights != 0
    used, ends = _bounds(indices, keep, extent)
    taps = int((ends - used).max())
    first = np.minimum(used, extent - taps)
    cells = np.arange(size)[:, None] * taps + indices - first[:, None]
    flat = np.bincount(cells[keep], weights[keep], size * taps)  # edge pixels repeat outside
    return first.astype(np.int32), flat.reshape(size, taps).astype(np.float32)


def _taps(extent: int, size: int, low: float, high: float, name: str, antialias: bool) -> tuple[Int64s, Float64s]:
    """Return the input index and the weight of every tap of every output, both of shape (size, taps)."""
    scale = (high - low) / size
    stretch = max(1.0, abs(scale)) if antialias else 1.0
    kernel = _FILTERS[name]
    reach = kernel.support * stretch
    centers = low + (np.arange(size) + 0.5) * scale
    firsts = np.floor(centers - reach - 0.5).astype(np.int64)
    indices = firsts[:, None] + np.arange(math.ceil(2 * reach) + 2)
    weights = kernel.values((indices + 0.5 - centers[:, None]) / stretch)
    weights /= weights.sum(axis=1, keepdims=True)
    return np.clip(indices, 0, extent - 1), weights


def _bounds(indices: Int64s, keep: Bools, extent: int) -> tuple[Int64s, Int64s]:
    """Return the first and the last (exclusive) input of each output, for the taps in `keep`."""
    return np.where(keep, indices, extent).min(axis=1), np.where(keep, indices + 1, 0).max(axis=1)


@lru_cache(maxsize=4096)
def nearest_indices(extent: int, size: int, low: float, high: float, accumulate: bool) -> npt.NDArray[np.intp]:
    """Return the input index of each output of nearest-neighbor resampling.

    As in DALI, positions are float32 and begin with the first pixel of the region; this decides ties between pixels.

    Args:
        extent: number of input pixels.
        size: number of outputs.
        low: as in `plan_taps`.
        high: as in `plan_taps`.
        accumulate: whether to accumulate positions, as DALI does for rows, instead of multiplying, as for columns.
    """
    begin, end = np.float32(low), np.float32(high)
    base = min(max(math.floor(min(begin, end)), 0), extent)
    begin, end = begin - np.float32(base), end - np.float32(base)
    scale = (end - begin) / np.float32(size)
    if accumulate:
        steps = np.full(size, scale, np.float32)
        steps[0] = begin + np.float32(0.5) * scale
        centers = np.cumsum(steps, dtype=np.float32)
    else:
        centers = begin + (np.arange(size, dtype=np.float32) + np.float32(0.5)) * scale
    return np.clip(np.floor(centers) + base, 0, extent - 1).astype(np.intp)
