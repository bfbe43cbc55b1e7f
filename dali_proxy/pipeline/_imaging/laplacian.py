"""Laplacian: the sum of the second derivatives along each axis."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import cv2
import numpy as np

from dali_proxy.pipeline._arrays import Array
from dali_proxy.pipeline._imaging.blur import blur
from dali_proxy.pipeline._imaging.convert import convert

#: Longest window for which one pass over a rectangle takes less time than passes along each axis of each derivative.
_LARGEST_DENSE = 5
_MOST_CHANNELS = 4
_FILTERED = (np.uint8, np.uint16, np.int16, np.float32)


@lru_cache(maxsize=64)
def derivative_window(size: int) -> Array:
    """Return the weights of a second derivative, an odd number from 3 to 31.

    Example:
        >>> derivative_window(3)
        array([ 1., -2.,  1.], dtype=float32)
    """
    return cv2.getDerivKernels(2, 0, size)[0].ravel()


@lru_cache(maxsize=64)
def smoothing_window(size: int) -> Array:
    """Return the binomial weights of a smoothing filter, an odd number from 1 to 31, which aren't normalized.

    Example:
        >>> smoothing_window(3)
        array([1., 2., 1.], dtype=float32)
    """
    return np.ones(1, np.float32) if size == 1 else cv2.getDerivKernels(2, 0, size)[1].ravel()


def _dense(derivatives: Sequence[tuple[Sequence[Array], float]]) -> Array | None:
    """Return the sum of the filters of two axes as one small matrix; None if it would be large."""
    if any(len(weights) > _LARGEST_DENSE for windows, _ in derivatives for weights in windows):
        return None
    extents = [max(len(windows[axis]) for windows, _ in derivatives) for axis in (0, 1)]
    total = np.zeros(extents, np.float32)
    for (down, across), factor in derivatives:
        top, left = (extents[0] - len(down)) // 2, (extents[1] - len(across)) // 2
        part = np.outer(down, across) * np.float32(factor)
        total[top : top + len(down), left : left + len(across)] += part
    return total


def laplacian(image: Array, derivatives: Sequence[tuple[Sequence[Array], float]], out: Array) -> Array:
    """Sum up filtered images. Borders reflect without repeating the outermost value.

    Args:
        image: (..., channels): up to three axes to filter, and the axis of channels.
        derivatives: for each derivative, float32 weights for every filtered axis, and the factor of the result.
        out: output array, of the same shape; integers are rounded and clamped.

    Returns:
        `out`.

    Example:
        >>> image = np.array([[0], [0], [1], [0]], np.float32)
        >>> laplacian(image, [([derivative_window(3)], 2.0)], np.empty_like(image)).ravel()
        array([ 0.,  2., -4.,  4.], dtype=float32)
    """
    if not out.size:
        return out
    if image.ndim == 3 and (kernel := _dense(derivatives)) is not None and image.shape[2] <= _MOST_CHANNELS:
        source = image if image.dtype in _FILTERED else image.astype(np.float32)
        exact = image.dtype == out.dtype == np.uint8 and (kernel == np.rint(kernel)).all()  # nothing is rounded
        depth = -1 if exact else cv2.CV_32F
        made = cv2.filter2D(np.ascontiguousarray(source), depth, kernel, borderType=cv2.BORDER_REFLECT_101)
        return convert(made.reshape(out.shape), out.dtype, out)
    total = np.zeros(image.shape, np.float32)
    part = np.empty(image.shape, np.float32)
    for windows, factor in derivatives:
        blur(image, windows, part)
        part *= np.float32(factor)
        total += part
    return convert(total, out.dtype, out)
