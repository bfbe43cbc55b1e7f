"""Linear transforms of pixels: a common gain and offset for all channels, and matrices between channels."""

from __future__ import annotations

from functools import cache

import cv2
import numpy as np

from dali_proxy.pipeline._arrays import Array
from dali_proxy.pipeline._imaging.convert import COLOR_CHANNELS, COLOR_MATRICES, WIDE, convert
from dali_proxy.pipeline._imaging.native import compiled
from dali_proxy.pipeline._imaging.normalize import scale_numbers
from dali_proxy.pipeline._imaging.scratch import scratch

_OPENCV = {np.dtype(name) for name in ("uint8", "int16", "int32", "float32", "float64")}
_BYTES = np.arange(256, dtype=np.float32)


def scale_shift(image: Array, gain: float, offset: float, out: Array) -> Array:
    """Compute ``image * gain + offset`` to `out`, rounded half away from zero and clamped for integer outputs.

    Returns:
        `out`.

    Example:
        >>> scale_shift(np.array([[1, 3]], np.uint8), 0.5, 0.0, np.empty((1, 2), np.uint8))
        array([[1, 2]], dtype=uint8)
    """
    if image.dtype == np.uint8:
        # Bytes have 256 values: convert each once.
        table = convert(_BYTES * np.float32(gain) + np.float32(offset), out.dtype)
        if compiled is not None and out.dtype == np.uint8 and out.flags.c_contiguous:
            compiled.map_bytes(np.ascontiguousarray(image), out, table, gain, offset)
            return out
        return _look_up(image, table, out)
    wide = image.dtype in WIDE or out.dtype in WIDE
    work = scratch("scale_shift", image.shape, np.float64 if wide else np.float32)
    target = out if out.dtype == np.float32 else work
    if not wide and scale_numbers(image, target, gain, offset):
        return out if target is out else convert(work, out.dtype, out)
    np.multiply(image, work.dtype.type(gain), out=work, casting="unsafe")
    work += work.dtype.type(offset)
    return convert(work, out.dtype, out)


def _look_up(image: Array, table: Array, out: Array) -> Array:
    if image.flags.c_contiguous and out.flags.c_contiguous and out.dtype in _OPENCV and out.size:
        width = out.shape[-1] if out.ndim else 1
        cv2.LUT(image.reshape(-1, width), table, dst=out.reshape(-1, width))
    else:
        np.copyto(out, table[image])
    return out


def transform_channels(image: Array, matrix: Array, offset: Array, out: Array) -> Array:
    """Compute ``matrix @ pixel + offset`` for every pixel, in float32; rounded and clamped for integer outputs.

    Args:
        image: (..., channels), of any numeric dtype.
        matrix: (output channels, channels).
        offset: (output channels,).
        out: output array, (..., output channels).

    Returns:
        `out`.

    Raises:
        ValueError: the numbers of channels don't match.
    """
    rows, columns = matrix.shape
    if image.shape[-1] != columns or out.shape[-1] != rows:
        raise ValueError(
            f"a matrix of {rows} by {columns} doesn't convert {image.shape[-1]} to {out.shape[-1]} channels"
        )
    if not out.size:
        return out
    if (
        compiled is not None
        and image.dtype == out.dtype == np.uint8
        and rows == columns == 3
        and out.flags.c_contiguous
    ):
        compiled.map_colors(np.ascontiguousarray(image), np.column_stack([matrix, offset]).astype(np.float32), out)
        return out
    pixels = scratch("transformed from", (out.size // rows, 1, columns), np.float32)
    np.copyto(pixels.reshape(image.shape), image, casting="unsafe")
    work = scratch("transformed to", (out.size // rows, 1, rows), np.float32)
    cv2.transform(pixels, np.column_stack([matrix, offset]), dst=work)
    result = work.reshape(out.shape)
    return convert(result, out.dtype, out)


@cache
def color_matrix(source: str, target: str) -> tuple[Array, Array]:
    """Return the matrix and the offset that convert one color space to another, for pixels from 0 to 255.

    Args:
        source: color space of the input: RGB, BGR, GRAY or YCbCr.
        target: color space of the output.

    Raises:
        ValueError: a color space is unknown.

    Example:
        >>> color_matrix("RGB", "GRAY")[0]
        array([[0.299, 0.587, 0.114]])
    """
    for space in (source, target):
        if space not in COLOR_CHANNELS:
            raise ValueError(f"unknown colour space {space!r}; known are {', '.join(COLOR_CHANNELS)}")
    if source == "BGR":
        matrix, offset = color_matrix("RGB", target)
        return matrix[:, ::-1], offset
    if target == "BGR":
        matrix, offset = color_matrix(source, "RGB")
        return matrix[::-1], offset[::-1]
    if source == target:
        return np.eye(COLOR_CHANNELS[source]), np.zeros(COLOR_CHANNELS[source])
    if (source, target) == ("GRAY", "RGB"):
        return np.ones((3, 1)), np.zeros(3)
    rows = COLOR_MATRICES[source, target]
    return rows[:, :-1], rows[:, -1]
