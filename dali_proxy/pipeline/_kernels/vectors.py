"""Vectors, such as the coordinates of points, as pixels whose channels are their elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from dali_proxy.pipeline._cuda.launch import ctype
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._kernels.pixels import MEMORY
from dali_proxy.pipeline._kernels.rows import zeros
from dali_proxy.pipeline._kernels.samples import Samples

# Order of the dimensions; the last letters count.
_ORDER = "DHWC"


def as_vectors(pixels: PixelExpression) -> PixelExpression | None:
    """Return elements in memory with the last dimension as channels, so that vectors are pixels.

    Returns:
        The vectors, as elements again; None if their length differs or is 0, or if they aren't in memory.
    """

    def describe() -> PixelExpression | None:
        samples = pixels.stored
        vectors = None if samples is None else stored_vectors(samples, pixels.layout, *pixels.owners)
        return vectors.keep_values() if vectors is not None and pixels.recurs else vectors

    return pixels.kept(as_vectors, describe)


def stored_vectors(samples: Samples, layout: str, *owners: Any) -> PixelExpression | None:
    """Return samples of up to four dimensions, with any strides, as `as_vectors` does; owners keep them alive."""
    if not 0 < samples.ndim <= len(_ORDER) or not len(samples):
        return None
    channels = int(samples.shapes[0, -1])
    if not channels or (samples.shapes[:, -1] != channels).any():
        return None
    outer = len(_ORDER) - samples.ndim
    extents, rows = np.ones((len(samples), 4), np.int64), zeros(len(samples), MEMORY)
    extents[:, outer:] = samples.shapes
    rows["data"] = samples.pointers
    rows["strides"][:, outer:] = samples.strides
    kind, order, dtype = f"Memory<{ctype(samples.dtype)}, {channels}>", _ORDER[outer:], samples.dtype
    return PixelExpression(kind, rows, extents[:, :3], channels, dtype, layout, order, owners, is_image=False)
