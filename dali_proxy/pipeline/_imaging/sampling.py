"""Pixels of images and volumes at arbitrary positions: the nearest one, or linear interpolation."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cache
from typing import Any

import cv2
import numpy as np

from dali_proxy.pipeline._arrays import Array
from dali_proxy.pipeline._imaging.convert import convert
from dali_proxy.pipeline._imaging.native import compiled
from dali_proxy.pipeline._imaging.scratch import scratch

#: Arrays whose pixels OpenCV copies by position.
_COPIED_CHANNELS = 4
_COPIED_DTYPES = (np.uint8, np.int8, np.uint16, np.int16, np.int32, np.float32, np.float64)
#: Spatial axes that the compiled loop supports.
_MOST_AXES = 3
#: Largest extent that OpenCV supports.
LARGEST = 32767


@cache
def prepare_fill(fill: float | None, source: np.dtype[Any], wanted: np.dtype[Any], nearest: bool) -> float | None:
    """Return the fill value outside the source.

    As in DALI, it is cast to the result's dtype, and for interpolation also to the source's dtype.

    Example:
        >>> prepare_fill(50.7, np.dtype(np.uint8), np.dtype(np.float32), nearest=False)
        51.0
    """
    if fill is None:
        return None
    value = convert(np.array([fill], np.float32), wanted)
    return float(value[0] if nearest else convert(value, source)[0])


def copied_by_opencv(image: Array, size: Sequence[int]) -> bool:
    """Return whether `copy_nearest` supports an image and a size of the result."""
    flat = image.ndim == 3 and max(*image.shape[:2], *size) <= LARGEST
    return flat and image.dtype in _COPIED_DTYPES and image.shape[-1] <= _COPIED_CHANNELS


def nearest_at(image: Array, positions: Sequence[Array], fill: float | None) -> Array:
    """Return the pixels that contain positions. Pixel k covers [k, k + 1).

    Args:
        image: (height, width, channels) or (depth, height, width, channels), not empty.
        positions: positions along each spatial axis, arrays that broadcast to the size of the result.
        fill: value outside the image; None repeats the border pixels.

    Example:
        >>> nearest_at(np.array([[[1], [2]]]), [np.array([[0.5]]), np.array([[1.7]])], None).ravel()
        array([2])
    """
    size = np.broadcast_shapes(*(axis.shape for axis in positions))
    if not copied_by_opencv(image, size):
        return _pick(image, [_whole(np.broadcast_to(axis, size)) for axis in positions], fill)
    return copy_nearest(image, nearest_pixels(positions, scratch("whole positions", (*size, 2), np.int16)), fill)


def nearest_pixels(positions: Sequence[Array], out: Array) -> Array:
    """Return the columns and rows of the pixels that contain positions along y and x, for `copy_nearest`.

    The positions broadcast to the size of the result, `out`, int16 (height, width, 2).

    Returns:
        `out`.
    """
    for axis, values in enumerate(reversed(positions)):
        work = scratch("positions", values.shape, np.float64)
        np.floor(values, out=work)
        np.clip(work, -LARGEST - 1, LARGEST, out=work)
        np.copyto(out[..., axis], work, casting="unsafe")
    return out


def copy_nearest(image: Array, whole: Array, fill: float | None) -> Array:
    """Return the pixels at the result of `nearest_pixels`, as `nearest_at` does."""
    made: Array = cv2.remap(  # type: ignore[call-overload]  # without a second map
        np.ascontiguousarray(image),
        whole,
        None,
        cv2.INTER_NEAREST,
        borderMode=cv2.BORDER_REPLICATE if fill is None else cv2.BORDER_CONSTANT,
        borderValue=(fill or 0.0,) * 4,
    )
    return made.reshape(*whole.shape[:2], image.shape[-1])


def linear_at(image: Array, positions: Sequence[Array], fill: float | None) -> Array:
    """Interpolate linearly, in float32. The centre of pixel k is at k + 0.5.

    Args:
        image: (height, width, channels) or (depth, height, width, channels), not empty.
        positions: positions along each spatial axis, arrays that broadcast to the size of the result.
        fill: value outside the image; None repeats the border pixels.

    Example:
        >>> linear_at(np.array([[[1], [2]]]), [np.array([[0.5]]), np.array([[0.75]])], None).ravel()
        array([1.25], dtype=float32)
    """
    size = np.broadcast_shapes(*(axis.shape for axis in positions))
    if compiled is not None and len(size) <= _MOST_AXES:
        return _linear_compiled(image, positions, size, fill)
    moved = [np.broadcast_to(axis, size) - 0.5 for axis in positions]
    first = [_whole(axis) for axis in moved]
    parts = [(axis - low).astype(np.float32) for axis, low in zip(moved, first, strict=True)]
    total = np.zeros((*size, image.shape[-1]), np.float32)
    for corner in itertools.product((0, 1), repeat=len(size)):
        weight = np.ones(size, np.float32)
        for step, part in zip(corner, parts, strict=True):
            weight *= part if step else 1 - part
        pixels = _pick(image, [low + step for low, step in zip(first, corner, strict=True)], fill)
        total += weight[..., None] * pixels.astype(np.float32)
    return total


def _linear_compiled(image: Array, positions: Sequence[Array], size: tuple[int, ...], fill: float | None) -> Array:
    """Return the same numbers from one loop over the positions."""
    assert compiled is not None
    together = scratch("positions of all axes", (len(size), *size), np.float64)
    for axis, values in zip(together, positions, strict=True):
        np.copyto(axis, values)
    total = np.empty((*size, image.shape[-1]), np.float32)
    value = b"" if fill is None else np.full(1, fill, image.dtype).astype(np.float32).tobytes()
    pixels = np.ascontiguousarray(image, np.float32)
    compiled.sample_linear(pixels, together.reshape(len(size), -1), value, total)
    return total


def _pick(image: Array, index: Sequence[Array], fill: float | None) -> Array:
    """Return the pixels at indices that may lie outside the image."""
    flat = np.zeros(index[0].shape, np.intp)
    for positions, extent in zip(index, image.shape[:-1], strict=True):
        flat = flat * extent + np.clip(positions, 0, extent - 1)
    pixels: Array = np.take(image.reshape(-1, image.shape[-1]), flat, axis=0, mode="clip")
    if fill is not None:
        pixels[outside(image, index)] = fill
    return pixels


def outside(image: Array, index: Sequence[Array]) -> Array:
    """Return the mask of the indices outside the image."""
    pairs = zip(index, image.shape[:-1], strict=True)
    return np.logical_or.reduce([(positions < 0) | (positions >= extent) for positions, extent in pairs])


def _whole(positions: Array) -> Array:
    return np.clip(np.floor(positions), -(2**31), 2**31).astype(np.intp)
