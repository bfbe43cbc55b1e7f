"""Vectors, such as the coordinates of points, as pixels whose channels are their elements."""

from __future__ import annotations

import numpy as np

from pipeline._cuda.launch import ctype
from pipeline._kernels.expression import LARGEST_CHANNELS, MEMORY, PixelExpression
from pipeline._kernels.rows import zeros

__all__ = ["as_vectors"]

# Order of the dimensions; the last letters count.
_ORDER = "DHWC"


def as_vectors(pixels: PixelExpression) -> PixelExpression | None:
    """Return elements in memory with the last dimension as channels, so that vectors are pixels.

    Returns:
        The vectors, as elements again; None if their length differs or is too large, or if they aren't in memory.
    """
    return pixels.kept(as_vectors, lambda: _vectors(pixels))


def _vectors(pixels: PixelExpression) -> PixelExpression | None:
    samples = pixels.stored
    if samples is None or not 0 < samples.ndim <= len(_ORDER) or not len(samples):
        return None
    channels = int(samples.shapes[0, -1])
    if not 1 <= channels <= LARGEST_CHANNELS or (samples.shapes[:, -1] != channels).any():
        return None
    outer = len(_ORDER) - samples.ndim
    extents, rows = np.ones((len(samples), 4), np.int64), zeros(len(samples), MEMORY)
    extents[:, outer:] = samples.shapes
    rows["data"] = samples.pointers
    rows["strides"][:, outer:] = samples.strides
    kind, order, dtype = f"Memory<{ctype(samples.dtype)}, {channels}>", _ORDER[outer:], samples.dtype
    vectors = PixelExpression(
        kind, rows, extents[:, :3], channels, dtype, pixels.layout, order, pixels.owners, is_image=False
    )
    return vectors.keep_templates() if pixels.recurs else vectors
