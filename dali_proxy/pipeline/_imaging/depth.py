"""Conversion of images to dtypes other than the stored one: full scale stays full scale."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._arrays import Array
from dali_proxy.pipeline._imaging.convert import convert, convert_color

#: Unless results are bytes, DALI places black at 1/16 and zero chroma at 1/2 of the range, not at 16 and 128 of 255.
_OFFSETS = np.array([16 - 255 / 16, 128 - 255 / 2, 128 - 255 / 2], np.float32)


def full_scale(dtype: npt.DTypeLike) -> float:
    """Return the brightest value of a dtype: 1 for floats.

    Example:
        >>> full_scale(np.int16)
        32767.0
    """
    kind = np.dtype(dtype)
    return 1.0 if kind.kind == "f" else float(np.iinfo(kind).max)


def rescale(pixels: Array, dtype: npt.DTypeLike, *, ycbcr: bool = False) -> Array:
    """Scale samples to the range of a dtype.

    Args:
        pixels: HWC, unsigned integers or floats up to 1.
        dtype: dtype of the result.
        ycbcr: whether to convert from RGB to YCbCr as well, without intermediate rounding.

    Example:
        >>> rescale(np.array([[[51]]], np.uint8), np.float32).item()
        0.20000001788139343
    """
    target = np.dtype(dtype)
    if ycbcr and pixels.dtype == target == np.uint8:
        return convert_color(pixels, "RGB", "YCbCr")
    if ycbcr:
        values = convert_color(pixels.astype(np.float32) * np.float32(255 / full_scale(pixels.dtype)), "RGB", "YCbCr")
        if target != np.uint8:
            values -= _OFFSETS
        return convert(values * np.float32(full_scale(target) / 255), target)
    if pixels.dtype == target:
        return pixels
    if pixels.dtype == np.uint8:
        return _levels(target)[pixels]
    return convert(pixels.astype(np.float32) * np.float32(full_scale(target) / full_scale(pixels.dtype)), target)


@cache
def _levels(dtype: np.dtype[Any]) -> Array:
    """Return the converted value of each of the 256 values of a byte."""
    return convert(np.arange(256, dtype=np.float32) * np.float32(full_scale(dtype) / 255), dtype)
