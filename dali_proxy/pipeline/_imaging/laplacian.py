"""Laplacian: the sum of the second derivatives along each axis."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._imaging.blur import blur
from dali_proxy.pipeline._imaging.convert import convert

Array = npt.NDArray[Any]


@lru_cache(maxsize=64)
def derivative_window(size: int) -> Array:
    """Return the weights of a second derivative.

    Args:
        size: odd number of weights, 3 to 31.

    Example:
        >>> derivative_window(3)
        array([ 1., -2.,  1.], dtype=float32)
    """
    return cv2.getDerivKernels(2, 0, size)[0].ravel()


@lru_cache(maxsize=64)
def smoothing_window(size: int) -> Array:
    """Return the binomial weights of a smoothing filter, which aren't normalized.

    Args:
        size: odd number of weights, 1 to 31.

    Example:
        >>> smoothing_window(3)
        array([1., 2., 1.], dtype=float32)
    """
    return np.ones(1, np.float32) if size == 1 else cv2.getDerivKernels(2, 0, size)[1].ravel()


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
        array([ 0.,  2., -4.,  2.], dtype=float32)
    """
    if not out.size:
        return out
    total = np.zeros(image.shape, np.float32)
    part = np.empty(image.shape, np.float32)
    for windows, factor in derivatives:
        blur(image, windows, part)
        part *= np.float32(factor)
        total += part
    return convert(total, out.dtype, out)
