"""Cropping, mirroring, scaling and changes of layout and dtype, in one step into the caller's memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import cv2
import numpy as np

from dali_proxy.pipeline._arrays import Array
from dali_proxy.pipeline._imaging.convert import convert
from dali_proxy.pipeline._imaging.native import compiled, is_for_loops
from dali_proxy.pipeline._imaging.scratch import scratch
from dali_proxy.pipeline._imaging.window import paste_fill


def crop_mirror_normalize(
    image: Array,
    out: Array,
    *,
    window: tuple[int, int, int, int] | None = None,
    mirror: bool = False,
    scale: Sequence[float] = (1.0,),
    bias: Sequence[float] = (0.0,),
    fill: float | Sequence[float] = 0,
    layout: str = "CHW",
) -> Array:
    """Compute ``image * scale + bias`` per channel over a window, rounded and clamped for integer outputs.

    With DALI's arguments, ``scale`` is ``scale / std`` and ``bias`` is ``shift - mean * scale / std``.

    Args:
        image: HWC, of any numeric dtype.
        out: output array of float32, float16, uint8, int8 or another dtype. Its shape is (c, h, w) or (h, w, c) for a
            window of h by w. If c exceeds the image's channels, the additional channels contain `fill`.
        window: (y0, x0, height, width); may exceed the image. None for the whole image.
        mirror: whether to flip the window horizontally, including pixels outside the image.
        scale: one value, or one per channel of the image.
        bias: one value, or one per channel of the image.
        fill: value of pixels outside the image and of additional channels, without normalisation; one value or one
            per channel of `out`.
        layout: layout of `out`, ``"CHW"`` or ``"HWC"``.

    Returns:
        `out`.

    Raises:
        ValueError: the shapes don't match, the number of values is wrong, or the layout is unknown.

    Example:
        >>> image = np.full((2, 2, 1), 100, np.uint8)
        >>> crop_mirror_normalize(image, np.empty((1, 2, 2), np.float32), scale=[0.5], bias=[1.0])[0, 0]
        array([51., 51.], dtype=float32)
    """
    if layout not in ("CHW", "HWC"):
        raise ValueError(f"unknown layout {layout!r}; known are CHW and HWC")
    height, width, channels = image.shape
    y0, x0, wanted_h, wanted_w = window if window is not None else (0, 0, height, width)
    planes = out if layout == "CHW" else out.transpose(2, 0, 1)
    if planes.shape[0] < channels or planes.shape[1:] != (wanted_h, wanted_w):
        raise ValueError(
            f"a window of {wanted_h} by {wanted_w} with {channels} channels doesn't fit {layout} {out.shape}"
        )
    gains, offsets = _per_channel(scale, channels, "scale"), _per_channel(bias, channels, "bias")
    if window is None and planes.shape[0] == channels and image.size:
        _write(image, planes, mirror, gains, offsets)
        return out

    top, bottom = min(max(y0, 0), height), min(max(y0 + wanted_h, 0), height)
    left, right = min(max(x0, 0), width), min(max(x0 + wanted_w, 0), width)
    inside = image[top:bottom, left:right]
    if inside.shape[:2] != (wanted_h, wanted_w) or planes.shape[0] > channels:
        paste_fill(planes, fill, 0)
        y, x = top - y0, left - x0
        if mirror:
            x = wanted_w - x - inside.shape[1]
        planes = planes[:channels, y : y + inside.shape[0], x : x + inside.shape[1]]
    if inside.size:
        _write(inside, planes, mirror, gains, offsets)
    return out


def scale_numbers(array: Array, out: Array, gain: float, offset: float) -> bool:
    """Compute ``array * gain + offset`` in one pass over small numbers to float32, if the compiled loop exists.

    Returns:
        Whether `out` was computed: False for other dtypes, for non-contiguous arrays, and without the loop.
    """
    contiguous = array.flags.c_contiguous and out.flags.c_contiguous
    supported = is_for_loops(array) and out.dtype == np.float32 and contiguous
    if compiled is None or not supported or not array.size:
        return False
    compiled.normalize(array.reshape(1, -1, 1), out.reshape(1, -1, 1), False, *_packed((gain,), (offset,)))
    return True


def _per_channel(values: Sequence[float], channels: int, name: str) -> tuple[float, ...]:
    floats = tuple(map(float, values))
    if len(floats) == 1:
        return floats * channels
    if len(floats) != channels:
        raise ValueError(f"{len(floats)} values of {name} were given for {channels} channels")
    return floats


def _write(image: Array, planes: Array, mirror: bool, gains: tuple[float, ...], offsets: tuple[float, ...]) -> None:
    """Write an HWC image to planes (c, h, w), which may be a view of HWC memory."""
    channels = image.shape[2]
    is_float = planes.dtype == np.float32 and planes.strides[1:] == (4 * planes.shape[2], 4)
    if compiled is not None and is_float and is_for_loops(image):
        compiled.normalize(image, planes.transpose(1, 2, 0), mirror, *_packed(gains, offsets))
    elif image.dtype != np.uint8 or channels > 4:
        _write_any(image, planes, mirror, gains, offsets)
    elif planes.dtype.itemsize == 1:
        _write_bytes(image, planes, mirror, gains, offsets)
    elif is_float:
        for source, plane, gain, offset in zip(_separate(image, mirror), planes, gains, offsets, strict=True):
            # The fastest way in measurements: one pass from uint8 to float32.
            cv2.addWeighted(source, gain, source, 0.0, offset, dst=plane, dtype=cv2.CV_32F)
    else:
        _write_any(image, planes, mirror, gains, offsets)


@lru_cache(maxsize=64)
def _packed(gains: tuple[float, ...], offsets: tuple[float, ...]) -> tuple[bytes, bytes]:
    return np.array(gains, np.float32).tobytes(), np.array(offsets, np.float32).tobytes()


def _separate(image: Array, mirror: bool) -> Array:
    """Convert HWC uint8 to (c, h, w), in scratch memory unless the image already has that memory layout."""
    height, width, channels = image.shape
    if image.strides[1] == 1:
        planes: Array = image.transpose(2, 0, 1)
    else:
        planes = scratch("bytes", (channels, height, width), np.uint8)
        cv2.split(image, list(planes))
    if not mirror:
        return planes
    flipped = scratch("mirrored", planes.shape, np.uint8)
    for plane, target in zip(planes, flipped, strict=True):
        cv2.flip(plane, 1, dst=target)
    return flipped


def _write_any(image: Array, planes: Array, mirror: bool, gains: tuple[float, ...], offsets: tuple[float, ...]) -> None:
    work = scratch("scaled", image.shape, np.float32)
    # Repeat the values of all channels along whole rows: ten times as fast as broadcasting three values.
    height, width, channels = image.shape
    rows = work.reshape(height, width * channels)
    pixels = image[:, ::-1] if mirror else image
    np.copyto(work, pixels, casting="unsafe")
    rows *= np.tile(np.asarray(gains, np.float32), width)
    rows += np.tile(np.asarray(offsets, np.float32), width)
    convert(work.transpose(2, 0, 1), planes.dtype, out=planes)


def _write_bytes(
    image: Array, planes: Array, mirror: bool, gains: tuple[float, ...], offsets: tuple[float, ...]
) -> None:
    tables = _tables(gains, offsets, planes.dtype.str)
    for source, plane, table in zip(_separate(image, mirror), planes, tables, strict=True):
        if table is None:
            np.copyto(plane, source)
        else:
            np.copyto(plane, cv2.LUT(source, table).view(planes.dtype))


@lru_cache(maxsize=64)
def _tables(gains: tuple[float, ...], offsets: tuple[float, ...], dtype: str) -> tuple[Array | None, ...]:
    """Return the tables of the results for the 256 inputs, one per channel; None if values don't change."""
    inputs = np.arange(256, dtype=np.float32)
    tables = []
    for gain, offset in zip(gains, offsets, strict=True):
        table = convert(inputs * np.float32(gain) + np.float32(offset), dtype).view(np.uint8)
        tables.append(None if np.array_equal(table, inputs) and dtype == "|u1" else table.reshape(1, 256))
    return tuple(tables)
