"""Linear maps of the points of a batch in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline._imaging.native import compiled

__all__ = ["map_points"]

Array = npt.NDArray[Any]

_MOST_COORDINATES = 6


def map_points(samples: Sequence[Array], count: int, matrices: Array, offsets: Array) -> Array | None:
    """Compute ``matrix @ point + offset`` in float32.

    Args:
        samples: N arrays of `count` points of n coordinates each.
        count: number of points of a sample.
        matrices: (N, m, n) float32.
        offsets: (N, m) float32.

    Returns:
        The points, (N, count, m); None for samples that aren't C-contiguous or float32, and without the compiled loop.
    """
    points = np.empty((len(samples), count, matrices.shape[1]), np.float32)
    fits = matrices.ndim == 3 and max(matrices.shape[1:]) <= _MOST_COORDINATES
    if compiled is None or not fits or not points.size or samples[0].dtype != np.float32:
        return None
    try:
        compiled.map_points(samples, np.ascontiguousarray(matrices), np.ascontiguousarray(offsets), points)
    except (BufferError, ValueError):  # a sample isn't contiguous
        return None
    return points
