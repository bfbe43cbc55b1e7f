"""Filters with arbitrary two-dimensional windows."""

from __future__ import annotations

from enum import IntEnum

import cv2
import numpy as np

from dali_proxy.pipeline._arrays import Array
from dali_proxy.pipeline._imaging.convert import convert

_OPENCV = {np.dtype(name) for name in ("uint8", "uint16", "int16", "float32")}
_MOST_CHANNELS = 4


class Border(IntEnum):
    """Rule for pixels outside an image."""

    REFLECT_101 = 0  # dcb|abcd|cba
    REFLECT_1001 = 1  # cba|abcd|dcb
    WRAP = 2
    CLAMP = 3
    CONSTANT = 4


#: Borders by DALI's names for them.
BORDERS = {
    "reflect_101": Border.REFLECT_101,
    "reflect101": Border.REFLECT_101,
    "101": Border.REFLECT_101,
    "reflect_1001": Border.REFLECT_1001,
    "reflect1001": Border.REFLECT_1001,
    "1001": Border.REFLECT_1001,
    "reflect": Border.REFLECT_1001,
    "wrap": Border.WRAP,
    "clamp": Border.CLAMP,
    "edge": Border.CLAMP,
    "constant": Border.CONSTANT,
    "pad": Border.CONSTANT,
    "fill": Border.CONSTANT,
}
#: Borders by OpenCV's names for them.
OPENCV_BORDERS = {
    "constant": Border.CONSTANT,
    "replicate": Border.CLAMP,
    "reflect": Border.REFLECT_1001,
    "reflect_101": Border.REFLECT_101,
    "wrap": Border.WRAP,
}
#: OpenCV's numbers of borders.
CV2_BORDERS = {
    Border.REFLECT_101: cv2.BORDER_REFLECT_101,
    Border.REFLECT_1001: cv2.BORDER_REFLECT,
    Border.WRAP: cv2.BORDER_WRAP,
    Border.CLAMP: cv2.BORDER_REPLICATE,
    Border.CONSTANT: cv2.BORDER_CONSTANT,
}


def filter2d(
    image: Array,
    window: Array,
    anchor: tuple[int, int],
    out: Array,
    border: Border = Border.REFLECT_101,
    fill: float = 0.0,
) -> Array:
    """Correlate an image with a window, in float32.

    Args:
        image: (height, width, channels), not empty.
        window: float32, (rows, columns).
        anchor: (row, column) in the window that aligns with the output pixel.
        out: output array: of the same shape, or without the pixels whose window crosses the border. Integers are
            rounded and clamped.
        border: rule for pixels outside the image.
        fill: value outside the image, for a constant border.

    Returns:
        `out`.

    Example:
        >>> image = np.array([[[1], [2], [4]]], np.float32)
        >>> filter2d(image, np.ones((1, 3), np.float32), (0, 1), np.empty_like(image)).ravel()
        array([5., 7., 8.], dtype=float32)
    """
    if not out.size:
        return out
    rows, columns = window.shape
    work = image if image.dtype in _OPENCV else image.astype(np.float32)
    if out.shape[0] != image.shape[0] or out.shape[1] != image.shape[1]:  # only pixels with the window inside
        top, left = (rows - 1) // 2, (columns - 1) // 2
        return _assign(_filtered(work, window, (left, top), cv2.BORDER_REPLICATE, out)[top:, left:], out)
    row, column = anchor
    if border in (Border.REFLECT_101, Border.REFLECT_1001, Border.CLAMP) and min(image.shape[:2]) > max(rows, columns):
        return _assign(_filtered(work, window, (column, row), CV2_BORDERS[border], out), out)
    margins = (row, rows - 1 - row, column, columns - 1 - column)
    padded = _padded(work, margins, border, fill)
    return _assign(_filtered(padded, window, (column, row), cv2.BORDER_REPLICATE, out)[row:, column:], out)


def _padded(image: Array, margins: tuple[int, int, int, int], border: Border, fill: float) -> Array:
    """Return the image with a margin. Unlike OpenCV's, borders support images that are smaller than the window."""
    top, bottom, left, right = margins
    pairs = ((top, bottom), (left, right), (0, 0))
    if border is Border.CONSTANT:
        return np.pad(image, pairs, constant_values=fill)
    if border is Border.REFLECT_101:
        return np.pad(image, pairs, mode="reflect")
    if border is Border.REFLECT_1001:
        return np.pad(image, pairs, mode="symmetric")
    return np.pad(image, pairs, mode="wrap" if border is Border.WRAP else "edge")


def _filtered(image: Array, window: Array, anchor: tuple[int, int], kind: int, out: Array) -> Array:
    depth = -1 if out.dtype == image.dtype else cv2.CV_32F
    if depth == cv2.CV_32F:
        image = image.astype(np.float32, copy=False)  # including the filter, four times as fast as OpenCV on integers
    channels = image.shape[2]
    filtered = [
        cv2.filter2D(
            np.ascontiguousarray(image[:, :, first : first + _MOST_CHANNELS]), depth, window, None, anchor, 0, kind
        )
        for first in range(0, channels, _MOST_CHANNELS)
    ]
    if len(filtered) == 1:
        return np.asarray(filtered[0]).reshape(*filtered[0].shape[:2], -1)
    return np.concatenate([chunk.reshape(*chunk.shape[:2], -1) for chunk in filtered], axis=2)


def _assign(filtered: Array, out: Array) -> Array:
    view = filtered[: out.shape[0], : out.shape[1]]
    if view.dtype == out.dtype:
        np.copyto(out, view)
        return out
    return convert(view, out.dtype, out)
