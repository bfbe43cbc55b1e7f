"""Affine warps of images and volumes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._arrays import Array
from dali_proxy.pipeline._imaging.convert import convert
from dali_proxy.pipeline._imaging.native import compiled
from dali_proxy.pipeline._imaging.sampling import LARGEST, linear_at, nearest_at, outside, prepare_fill
from dali_proxy.pipeline._imaging.scratch import scratch

#: Arrays that OpenCV interpolates without rounding positions; others are converted, or NumPy processes them.
_EXACT_CHANNELS = (1, 3, 4)
_EXACT_DTYPES = (np.uint8, np.uint16, np.float32)


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
    given, fill = fill, prepare_fill(fill, image.dtype, wanted, nearest)
    if not out.size:
        return out
    if not image.size:
        out[...] = fill or 0
        return out
    shift = _shift_of_slices(matrix) if image.ndim == 4 else None
    if shift is not None:
        plane = np.delete(np.asarray(matrix)[:2], 2, axis=1)
        for number, part in enumerate(out, shift):
            if fill is not None and not 0 <= number < len(image):
                part[...] = fill
            else:
                source = image[min(max(number, 0), len(image) - 1)]
                warp_affine(source, plane, size[1:], nearest=nearest, fill=given, dtype=wanted, out=part)
        return out
    flat = image.ndim == 3 and max(*image.shape[:2], *size) <= LARGEST
    if nearest:
        return _nearest(image, matrix, size, fill, out)
    if flat and image.shape[-1] in _EXACT_CHANNELS:
        return convert(_by_opencv(image, matrix, size, fill, wanted), wanted, out)
    return convert(linear_at(image, _positions(matrix, size), fill), wanted, out)


def _shift_of_slices(matrix: Array) -> int | None:
    """Return the number of the source's slice for the first slice of the result, if each slice comes from only one.

    That is the case for rotations about z. OpenCV warps slices many times faster than NumPy warps volumes.
    """
    rows = np.asarray(matrix, np.float64)
    shift = round(rows[2, 3])
    apart = np.abs(rows - np.array([[*rows[0, :2], 0, rows[0, 3]], [*rows[1, :2], 0, rows[1, 3]], [0, 0, 1, shift]]))
    return shift if apart.max() < 1e-9 else None


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


def _positions(matrix: Array, size: Sequence[int]) -> list[Array]:
    """Return the source positions of the result's pixels: one array per spatial axis of the source.

    The arrays are valid until this thread calls this function again.
    """
    axes = np.ogrid[tuple(slice(0.5, extent) for extent in size)]
    positions = []
    for axis, (*factors, start) in enumerate(np.asarray(matrix, np.float64)[::-1].tolist()):
        terms = [factor * points for factor, points in zip(factors, reversed(axes), strict=True)]
        work = scratch(f"positions along axis {axis}", tuple(size), np.float64)
        positions.append(np.add(sum(reversed(terms[1:]), start), terms[0], out=work))
    return positions


def _nearest(image: Array, matrix: Array, size: Sequence[int], fill: float | None, out: Array) -> Array:
    if compiled is not None and image.dtype == out.dtype and out.flags.c_contiguous:
        value = b"" if fill is None else np.full(image.shape[-1], fill, out.dtype).tobytes()
        source, target, moves = np.ascontiguousarray(image).view(np.uint8), out.view(np.uint8), np.zeros((3, 4))
        if image.ndim == 3:  # a volume of one slice
            source, target = source[None], target[None]
            moves[:2, [0, 1, 3]] = matrix
        else:
            moves[:] = matrix
        compiled.warp_nearest(source, target, moves, value)
        return out
    positions = _positions(matrix, size)
    if fill is None or image.dtype == out.dtype:
        return convert(nearest_at(image, positions, fill), out.dtype, out)
    convert(nearest_at(image, positions, None), out.dtype, out)  # the fill value is in units of the output
    out[outside(image, [np.floor(axis) for axis in positions])] = fill
    return out
