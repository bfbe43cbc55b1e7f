"""NumPy operations on arrays with short last axes, mainly channels.

NumPy's innermost loop runs along the last axis. If that has three elements, the loop costs more than the work, so
these functions treat several pixels as one row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np

from dali_proxy.pipeline._arrays import Array
from dali_proxy.pipeline._imaging.native import compiled

#: Number of elements of a sufficiently long row, and minimum number of such rows.
_LONG, _MANY = 256, 8
#: Largest last axis that is copied element by element.
_CHANNELS = 4
#: Dtypes that OpenCV sums in float64.
_SUMMED = {np.dtype(name) for name in ("float32", "float64")}
#: Dtypes that OpenCV sums by channel, exactly up to this many elements.
_IN_CHANNELS = {np.dtype(name) for name in ("uint8", "int8", "uint16", "int16", "float32")}
_MOST_SUMMED = 1 << 31
_ZERO = np.zeros(1, np.float32)


def contiguous(array: Array) -> Array:
    """Return an array in row-major order: a copy if necessary, fast even if images are mirrored or change channels.

    Example:
        >>> contiguous(np.array([[[1, 2], [3, 4]]])[:, ::-1]).tolist()
        [[[3, 4], [1, 2]]]
    """
    if array.flags.c_contiguous:
        return array
    adjacent = array.ndim < 2 or array.strides[-2] == array.shape[-1] * array.strides[-1]
    if adjacent or not 1 < array.shape[-1] <= _CHANNELS:
        return np.ascontiguousarray(array)
    copied = np.empty(array.shape, array.dtype)
    for channel in range(array.shape[-1]):
        copied[..., channel] = array[..., channel]
    return copied


def combine(ufunc: np.ufunc, array: Array, values: Array, out: Array) -> Array:
    """Compute ``ufunc(array, values)``; fast even if the values differ only along short last axes.

    Args:
        ufunc: function of two operands.
        array: array of any shape.
        values: array that broadcasts to `array`.
        out: output array, of the shape of `array`; its dtype is the dtype of the computation.

    Returns:
        `out`.

    Example:
        >>> pixels = np.ones((2, 2, 3), np.uint8)
        >>> combine(np.subtract, pixels, np.array([[[0, 1, 2]]]), np.empty((2, 2, 3), np.float32))[0, 0]
        array([ 1.,  0., -1.], dtype=float32)
    """
    first = next((axis for axis, extent in enumerate(values.shape) if extent != 1), values.ndim)
    trailing = values.ndim == array.ndim and values.shape[first:] == array.shape[first:]
    short = trailing and 1 < values.size < _LONG and array.size >= _LONG * _MANY
    if not short or not (array.flags.c_contiguous and out.flags.c_contiguous):
        ufunc(array, values, out=out, dtype=out.dtype, casting="unsafe")
        return out
    row = np.tile(values.reshape(-1).astype(out.dtype, copy=False), -(-_LONG // values.size))
    source, target = array.reshape(-1), out.reshape(-1)
    complete = source.size // row.size * row.size
    rows = source[:complete].reshape(-1, row.size)
    ufunc(rows, row, out=target[:complete].reshape(rows.shape), dtype=out.dtype, casting="unsafe")
    rest = source.size - complete
    ufunc(source[complete:], row[:rest], out=target[complete:], dtype=out.dtype, casting="unsafe")
    return out


def reduce_leading(ufunc: np.ufunc, array: Array, axes: Sequence[int], **options: Any) -> Array:
    """Compute ``ufunc.reduce(array, axes, keepdims=True, ...)``; fast even if short axes follow the reduced ones.

    Args:
        ufunc: function of two operands; the order of elements must not matter.
        array: array of any shape.
        axes: axes to reduce; distinct and not negative.
        options: dtype and initial value.
    """
    along = sorted(axes)
    count = math.prod([array.shape[axis] for axis in along])
    beside = array.flags.c_contiguous and along == list(range(array.ndim - len(along), array.ndim))
    summed = ufunc is np.add and array.dtype in _SUMMED and options == {"dtype": np.float64}
    if beside and summed and count >= _LONG and array.size:
        # OpenCV sums adjacent elements in float64, without converting the whole array first.
        total = cv2.reduce(array.reshape(-1, count), 1, cv2.REDUCE_SUM, dtype=cv2.CV_64F)
        return total.reshape([1 if axis in along else extent for axis, extent in enumerate(array.shape)])
    inner = array.size // count if count else 0
    short = along == list(range(len(along))) and 1 < inner < _LONG
    if not short or array.size < _LONG * _MANY or not array.flags.c_contiguous:
        return np.asarray(ufunc.reduce(array, axis=tuple(axes), keepdims=True, **options))
    fold = -(-_LONG // inner)
    rows = array.reshape(count, inner)
    complete = count // fold * fold
    result = ufunc.reduce(rows[:complete].reshape(-1, fold * inner), axis=0, **options).reshape(fold, inner)
    result = ufunc.reduce(result, axis=0, **options)
    if complete < count:
        result = ufunc(result, ufunc.reduce(rows[complete:], axis=0, **options))
    return np.asarray(result).reshape([1 if axis in along else extent for axis, extent in enumerate(array.shape)])


def sum_small(array: Array, axes: Sequence[int]) -> Array | None:
    """Return the sums of small numbers along all axes, or along all but the channels, in float64, with extents of 1.

    OpenCV sums each channel of an image in one pass. Sums of integers of 8 and 16 bits are exact.

    Returns:
        The sums; None for other dtypes or axes.
    """
    kept = math.prod([extent for axis, extent in enumerate(array.shape) if axis not in axes])
    leading = tuple(sorted(axes)) == tuple(range(len(axes))) and len(axes) >= array.ndim - 1
    if not leading or array.dtype not in _IN_CHANNELS or not 1 <= kept <= _CHANNELS or not array.flags.c_contiguous:
        return None
    if array.size > _MOST_SUMMED or array.size < _LONG * kept:
        return None
    pixels = array.reshape(1, -1) if kept == 1 else array.reshape(-1, array.shape[-2], kept)
    sums = np.array(cv2.sumElems(pixels)[:kept])
    return sums.reshape([1 if axis in axes else extent for axis, extent in enumerate(array.shape)])


def sum_trailing(array: Array, axes: Sequence[int], mean: Array | None, *, squared: bool, wide: bool) -> Array | None:
    """Return the sums of ``array - mean``, or of its square, along the last axes, in float64.

    Args:
        array: array of any shape and dtype.
        axes: axes to reduce; distinct and not negative.
        mean: array that broadcasts to `array`; None for 0.
        squared: whether to square the terms.
        wide: whether to compute squares in float64 instead of float32.

    Returns:
        The sums, of the shape of `array` with extents of 1; None if the compiled loop doesn't support the arrays.
    """
    kept = array.ndim - len(axes)
    if compiled is None or min(axes, default=-1) != kept or not _is_plain(array):
        return None
    sums = np.empty(array.shape[:kept] + (1,) * len(axes), np.float64)
    means = _ZERO if mean is None else mean
    if means.dtype != np.float32 or not (means.size == 1 or means.shape == sums.shape):
        return None
    compiled.sum_rows(array, np.ascontiguousarray(means), squared, wide, sums)
    return sums


def standardize_rows(array: Array, mean: Array, factor: Array, out: Array) -> None:
    """Compute ``(array - mean) * factor`` in float32; mean and factor broadcast to the array."""
    values = mean if mean.size > 1 else factor
    first = max((axis for axis, extent in enumerate(values.shape) if extent != 1), default=-1) + 1
    by_row = values.shape[:first] == array.shape[:first] and values.ndim in (0, array.ndim)
    if (
        compiled is not None
        and by_row
        and (1 in (mean.size, factor.size) or mean.shape == factor.shape)
        and mean.dtype == factor.dtype == np.float32
        and _is_plain(array)
        and out.flags.c_contiguous
    ):
        compiled.standardize(array, values.size, np.ascontiguousarray(mean), np.ascontiguousarray(factor), out)
        return
    combine(np.subtract, array, mean, out)
    combine(np.multiply, out, factor, out)


def _is_plain(array: Array) -> bool:
    return array.dtype == np.float32 and array.flags.c_contiguous and array.size > 0
