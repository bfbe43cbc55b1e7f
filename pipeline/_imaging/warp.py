"""Affine warps of images and volumes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from pipeline._imaging.convert import convert
from pipeline._imaging.scratch import scratch

__all__ = ["prepare_fill", "warp_affine"]

Array = npt.NDArray[Any]

#: Arrays that OpenCV interpolates without rounding positions; others are converted, or NumPy processes them.
_EXACT_CHANNELS = (1, 3, 4)
_EXACT_DTYPES = (np.uint8, np.uint16, np.float32)
_LARGEST = 32767
#: Arrays whose pixels OpenCV copies by position.
_COPIED_CHANNELS = 4
_COPIED_DTYPES = (np.uint8, np.int8, np.uint16, np.int16, np.int32, np.float32, np.float64)


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


def warp_affine(
    image: Array,
    matrix: Array,
    size: Sequence[int],
    *,
    nearest: bool = False,
    fill: float | None = None,
    dtype: npt.DTypeLike | None = None,
    out: Array | None = None,
) -> Array:
    """Warp an image or a volume. The matrix maps each point of the result to its source point.

    As in DALI, pixel k covers [k, k + 1); its center is k + 0.5.

    Args:
        image: (height, width, channels) or (depth, height, width, channels).
        matrix: (n, n + 1) for n spatial axes; maps the result to the source, with points as x, y and z.
        size: spatial extents of the result.
        nearest: whether to take the nearest pixel instead of interpolating.
        fill: value outside the source; None repeats the border pixels.
        dtype: dtype of the result; the source's by default.
        out: output array.

    Example:
        >>> warp_affine(np.array([[[1], [2], [3]]]), np.array([[1, 0, 1], [0, 1, 0]]), (1, 3)).ravel()
        array([2, 3, 3])
    """
    wanted = image.dtype if dtype is None else np.dtype(dtype)
    if out is None:
        out = np.empty((*size, image.shape[-1]), wanted)
    fill = prepare_fill(fill, image.dtype, wanted, nearest)
    if not out.size:
        return out
    if not image.size:
        out[...] = fill or 0
        return out
    flat = image.ndim == 3 and max(*image.shape[:2], *size) <= _LARGEST
    if nearest:
        copied = image.dtype in _COPIED_DTYPES and image.shape[-1] <= _COPIED_CHANNELS
        if flat and copied and (fill is None or image.dtype == wanted):
            return convert(_nearest_by_opencv(image, matrix, size, fill), wanted, out)
        return _nearest(image, matrix, fill, out)
    if flat and image.shape[-1] in _EXACT_CHANNELS:
        return convert(_by_opencv(image, matrix, size, fill, wanted), wanted, out)
    return convert(_linear(image, matrix, size, fill), wanted, out)


def _by_opencv(image: Array, matrix: Array, size: Sequence[int], fill: float | None, wanted: np.dtype[Any]) -> Array:
    if image.dtype not in _EXACT_DTYPES or image.dtype != wanted:
        image = image.astype(np.float32)
    moved = np.array(matrix, np.float64)  # in OpenCV, pixel centers are integers
    moved[:, 2] += moved[:, :2].sum(axis=1) * 0.5 - 0.5
    result: Array = cv2.warpAffine(
        np.ascontiguousarray(image),
        moved,
        (int(size[1]), int(size[0])),
        flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
        borderMode=cv2.BORDER_REPLICATE if fill is None else cv2.BORDER_CONSTANT,
        borderValue=(fill or 0.0,) * 4,
        hint=cv2.ALGO_HINT_ACCURATE,
    )
    return result.reshape(*size, image.shape[-1])


def _nearest_by_opencv(image: Array, matrix: Array, size: Sequence[int], fill: float | None) -> Array:
    """Compute `_nearest` with OpenCV, which receives integer positions and so doesn't round."""
    y, x = (np.arange(0.5, extent) for extent in size)
    work = scratch("positions", tuple(size), np.float64)
    integers = scratch("integer positions", (*size, 2), np.int16)
    for axis, (along, down, start) in enumerate(np.asarray(matrix, np.float64).tolist()):
        np.add(along * x, (down * y + start)[:, None], out=work)
        np.floor(work, out=work)
        np.clip(work, -_LARGEST - 1, _LARGEST, out=work)
        np.copyto(integers[..., axis], work, casting="unsafe")
    result: Array = cv2.remap(  # type: ignore[call-overload]  # without a second map
        np.ascontiguousarray(image),
        integers,
        None,
        cv2.INTER_NEAREST,
        borderMode=cv2.BORDER_REPLICATE if fill is None else cv2.BORDER_CONSTANT,
        borderValue=(fill or 0.0,) * 4,
    )
    return result.reshape(*size, image.shape[-1])


def _positions(matrix: Array, size: Sequence[int]) -> list[Array]:
    """Return the source positions of the result's pixels: one array per spatial axis of the source."""
    ndim = len(size)
    axes = np.ogrid[tuple(slice(0.5, extent) for extent in size)]
    zero = np.zeros(tuple(size))
    return [
        sum((row[ndim - 1 - axis] * axes[axis] for axis in range(ndim)), zero + row[ndim])
        for row in np.asarray(matrix, np.float64)[::-1]
    ]


def _pick(image: Array, index: Sequence[Array], fill: float | None) -> Array:
    """Return the pixels at positions that may lie outside the image."""
    flat = np.zeros(index[0].shape, np.intp)
    for positions, extent in zip(index, image.shape[:-1], strict=True):
        flat = flat * extent + np.clip(positions, 0, extent - 1)
    pixels: Array = np.take(image.reshape(-1, image.shape[-1]), flat, axis=0, mode="clip")
    if fill is not None:
        pixels[_outside(image, index)] = fill
    return pixels


def _outside(image: Array, index: Sequence[Array]) -> Array:
    pairs = zip(index, image.shape[:-1], strict=True)
    found: Array = np.logical_or.reduce([(positions < 0) | (positions >= extent) for positions, extent in pairs])
    return found


def _floored(positions: Array) -> Array:
    found: Array = np.clip(np.floor(positions), -(2**31), 2**31).astype(np.intp)
    return found


def _nearest(image: Array, matrix: Array, fill: float | None, out: Array) -> Array:
    index = [_floored(positions) for positions in _positions(matrix, out.shape[:-1])]
    convert(_pick(image, index, None), out.dtype, out)
    if fill is not None:
        out[_outside(image, index)] = fill
    return out


def _linear(image: Array, matrix: Array, size: Sequence[int], fill: float | None) -> Array:
    positions = [position - 0.5 for position in _positions(matrix, size)]
    first = [_floored(position) for position in positions]
    fractions = [(position - low).astype(np.float32) for position, low in zip(positions, first, strict=True)]
    total = np.zeros((*size, image.shape[-1]), np.float32)
    for corner in itertools.product((0, 1), repeat=len(size)):
        weight = np.ones(tuple(size), np.float32)
        for step, fraction in zip(corner, fractions, strict=True):
            weight *= fraction if step else 1 - fraction
        pixels = _pick(image, [low + step for low, step in zip(first, corner, strict=True)], fill)
        total += weight[..., None] * pixels.astype(np.float32)
    return total
