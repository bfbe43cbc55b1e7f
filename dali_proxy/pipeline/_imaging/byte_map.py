"""Lookup tables for the 256 values of a byte, given or computed from an image."""

from __future__ import annotations

import cv2
import numpy as np

from dali_proxy.pipeline._arrays import Array
from dali_proxy.pipeline._imaging.native import compiled

#: Weights of red, green and blue in the brightness of a pixel.
_LUMA = np.array([0.299, 0.587, 0.114])
_VALUES = np.arange(256)
# OpenCV's counts are float32, exact below 2 ** 24.
_MOST_PIXELS = 1 << 23
# Limit of OpenCV's arrays.
_MOST_CHANNELS = 128
# Limits of the compiled loops.
_COMPILED_CHANNELS = 4
_COMPILED_BYTES = 1 << 31


def look_up(image: Array, tables: Array, out: Array) -> Array:
    """Replace each value by its entry in a table.

    Args:
        image: uint8, (..., channels).
        tables: uint8, (256,), or (channels, 256) with one table per channel.
        out: output array: uint8, of the same shape.

    Returns:
        `out`.

    Example:
        >>> look_up(np.array([[1, 3]], np.uint8), 255 - np.arange(256, dtype=np.uint8), np.empty((1, 2), np.uint8))
        array([[254, 252]], dtype=uint8)
    """
    if not out.size:
        return out
    channels = image.shape[-1]
    if tables.ndim == 2 and channels == 1:
        tables = tables[0]
    packed = out.flags.c_contiguous
    if packed and compiled is not None and (tables.ndim == 1 or channels <= _COMPILED_CHANNELS):
        compiled.map_bytes(np.ascontiguousarray(image), out, np.ascontiguousarray(tables), 0.0, 0.0)
    elif packed and image.flags.c_contiguous and (tables.ndim == 1 or channels <= _MOST_CHANNELS):
        table = tables if tables.ndim == 1 else np.ascontiguousarray(tables.T)[None]
        shape = (-1, image.shape[-2], channels) if image.ndim > 1 else (1, 1, channels)
        cv2.LUT(image.reshape(shape), table, dst=out.reshape(shape))
    elif tables.ndim == 1:
        np.copyto(out, tables[image])
    else:
        np.copyto(out, tables[np.arange(channels), image])
    return out


def histograms(image: Array) -> Array:
    """Count the values of each channel of a uint8 image (height, width, channels).

    Returns:
        int64, (channels, 256).
    """
    height, width, channels = image.shape
    counts = np.zeros((channels, 256), np.int64)
    if compiled is not None and 1 <= channels <= _COMPILED_CHANNELS and image.nbytes <= _COMPILED_BYTES:
        compiled.count_bytes(np.ascontiguousarray(image), counts)
        return counts
    step = max(1, _MOST_PIXELS // max(1, width))
    for first in range(0, height if width else 0, step):
        rows = np.ascontiguousarray(image[first : first + step])
        for channel in range(channels):
            counts[channel] += cv2.calcHist([rows], [channel], None, [256], [0, 256]).ravel().astype(np.int64)
    return counts


def equalization_tables(counts: Array) -> Array:
    """Return tables that distribute values of counts (channels, 256) evenly, as OpenCV's equalizeHist does.

    Returns:
        uint8, (channels, 256). A channel of one value keeps it.
    """
    total = counts.sum(axis=1)
    lowest = (counts > 0).argmax(axis=1)
    least = np.take_along_axis(counts, lowest[:, None], axis=1)[:, 0]
    rest = total - least
    scale = np.float32(255) / np.maximum(rest, 1).astype(np.float32)
    spread = (np.cumsum(counts, axis=1) - least[:, None]).astype(np.float32) * scale[:, None]
    tables = np.rint(np.clip(spread, 0, 255)).astype(np.uint8)
    return np.where((rest == 0)[:, None], _VALUES.astype(np.uint8), tables)


def auto_contrast_tables(counts: Array) -> Array:
    """Return tables that stretch each channel, with counts (channels, 256), to 0 to 255.

    Returns:
        uint8, (channels, 256). A channel of one value keeps it.
    """
    lowest = (counts > 0).argmax(axis=1).astype(np.float32)
    highest = (255 - (counts[:, ::-1] > 0).argmax(axis=1)).astype(np.float32)
    flat = highest <= lowest
    scale = np.float32(255) / np.where(flat, np.float32(1), highest - lowest)
    stretched = (_VALUES.astype(np.float32) - lowest[:, None]) * scale[:, None]
    tables = np.floor(np.clip(stretched, 0, 255) + np.float32(0.5)).astype(np.uint8)
    return np.where(flat[:, None], _VALUES.astype(np.uint8), tables)


def contrast_tables(counts: Array, contrast: float) -> Array:
    """Return the table that scales the distance of values from the image's mean brightness by a factor.

    The counts, (channels, 256), are of three channels (red, green, blue) or one channel.

    Returns:
        uint8, (256,).

    Raises:
        ValueError: the number of channels is neither one nor three.
    """
    if len(counts) not in (1, 3):
        raise ValueError(f"an image of {len(counts)} channels has no brightness; it needs 1 or 3 channels")
    means = counts @ _VALUES / np.maximum(1, counts.sum(axis=1))
    center = np.float32(means @ _LUMA if len(means) == 3 else means[0])
    factor = np.float32(contrast)
    scaled = _VALUES.astype(np.float32) * factor + (center - center * factor)
    return np.floor(np.clip(scaled, 0, 255) + np.float32(0.5)).astype(np.uint8)
