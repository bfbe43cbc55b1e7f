"""Separable filters on the GPU: along the axes of images at once, or along single axes of samples of any dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._kernels import Samples
from dali_proxy.pipeline._kernels.evaluate import LINES, SHARED_BYTES, TILE_WIDTH
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline.tensors.cpu import Array

#: Largest radius, along all axes but the first, for a single launch. A block of it writes 32 columns, and filters this
#: number of columns on both sides along the first axis, too.
_LARGEST_RADIUS = 16
#: Largest share of a block's shared memory for the pixels; the rest describes them.
_LARGEST_SHARE = 0.98


def convolve_axes(
    pixels: PixelExpression,
    letters: str,
    windows: Sequence[tuple[Array, Array]],
    dtypes: Sequence[np.dtype[Any]],
    results: int = 1,
) -> PixelExpression | None:
    """Return images filtered along several axes, one after the other; None if a launch for each axis is faster.

    Args:
        pixels: the images.
        letters: the axes.
        windows: for each axis, the weights and radii as in `PixelExpression.convolve`.
        dtypes: dtype of the result along each axis.
        results: number of such results that share the memory of a block.
    """
    largest = [int(radii.max()) for _, radii in windows[1:]]
    extents = {"H": LINES, "W": TILE_WIDTH}  # of the pixels that a block needs at least
    for letter, radius, dtype in zip(letters[:0:-1], largest[::-1], dtypes[-2::-1], strict=True):
        extents[letter] = extents.get(letter, 1) + 2 * radius
        nbytes = math.prod(extents.values()) * pixels.channels * dtype.itemsize
        if radius > _LARGEST_RADIUS or nbytes * results * len(largest) > _LARGEST_SHARE * SHARED_BYTES:
            return None
    for number, (letter, (weights, radii), dtype) in enumerate(zip(letters, windows, dtypes, strict=True)):
        pixels = (pixels.cached() if number else pixels).convolve(letter, weights, radii, dtype)
    return pixels


def convolve_axis(
    source: Samples, axis: int, weights: Array, radii: Array, dtype: np.dtype[Any], owner: Any
) -> tuple[PixelExpression, Array]:
    """Return samples filtered along an axis, as images of elements, and the shapes of these images.

    Weights and radii are those of `PixelExpression.convolve`; the samples must be contiguous.
    """
    images = source.around(axis)
    # Threads along a few channels would be idle: each of them computes all channels of a pixel.
    pixels = PixelExpression.from_samples(images, "HWC", owner)
    if pixels is not None:
        return pixels.convolve("W", weights, radii, dtype), images.shapes
    pixels = PixelExpression.from_elements(images, "", owner)
    assert pixels is not None  # it has three dimensions
    return pixels.convolve("H", weights, radii, dtype), images.shapes


def reshaped(samples: Samples, shapes: Array) -> Samples:
    """Return contiguous samples with other shapes, (N, ndim), of the same sizes."""
    return Samples.contiguous(samples.pointers, shapes, samples.dtype)
