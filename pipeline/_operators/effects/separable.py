"""Filters along single axes of samples on the GPU, whatever their dimensions are."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline._kernels import Samples
from pipeline._kernels.expression import PixelExpression
from pipeline.tensors.cpu import Array

__all__ = ["convolve_axis", "reshaped"]


def convolve_axis(
    source: Samples, axis: int, weights: Array, radii: Array, dtype: np.dtype[Any], owner: Any
) -> tuple[PixelExpression, Array]:
    """Return samples filtered along an axis, as images of elements, and the shapes of these images.

    Args:
        source: contiguous samples.
        axis: axis to filter.
        weights: as in `PixelExpression.convolve`.
        radii: as in `PixelExpression.convolve`.
        dtype: dtype of the result.
        owner: object that keeps the memory alive.
    """
    parts = [source.shapes[:, :axis], source.shapes[:, axis : axis + 1], source.shapes[:, axis + 1 :]]
    image = np.stack([part.prod(axis=1) for part in parts], axis=1)
    # Threads along a few channels would be idle: each of them computes all channels of a pixel.
    pixels = PixelExpression.from_samples(reshaped(source, image), "HWC", owner)
    if pixels is not None:
        return pixels.convolve("W", weights, radii, dtype), image
    pixels = PixelExpression.from_elements(reshaped(source, image), "", owner)
    assert pixels is not None  # it has three dimensions
    return pixels.convolve("H", weights, radii, dtype), image


def reshaped(samples: Samples, shapes: Array) -> Samples:
    """Return contiguous samples with other shapes, (N, ndim), of the same sizes."""
    return Samples.contiguous(samples.pointers, shapes, samples.dtype)
