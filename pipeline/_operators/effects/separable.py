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
    is_last = bool((image[:, 2] == 1).all())
    image = image[:, [2, 0, 1]] if is_last else image
    pixels = PixelExpression.from_elements(reshaped(source, image), "", owner)
    assert pixels is not None  # it has three dimensions
    return pixels.convolve("W" if is_last else "H", weights, radii, dtype), image


def reshaped(samples: Samples, shapes: Array) -> Samples:
    """Return contiguous samples with other shapes, (N, ndim), of the same sizes."""
    return Samples.contiguous(samples.pointers, shapes, samples.dtype)
