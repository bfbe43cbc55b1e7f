"""Linear maps of the points of a batch in one call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dali_proxy.pipeline._arrays import Array
from dali_proxy.pipeline._imaging.native import compiled

_MOST_COORDINATES = 6


def map_points(samples: Sequence[Array] | Array, count: int | Array, matrices: Array, offsets: Array) -> Array | None:
    """Compute ``matrix @ point + offset`` in float32.

    Args:
        samples: N arrays of points of n coordinates each, or one array of the points of all samples.
        count: number of points of a sample, or (N,) integers.
        matrices: (N, m, n) float32.
        offsets: (N, m) float32.

    Returns:
        The points, (N, count, m), or (sum of count, m); None for samples that aren't C-contiguous or float32, and
        without the compiled loop.
    """
    shape: tuple[int, ...] = (len(matrices), count) if isinstance(count, int) else (int(count.sum()),)
    points = np.empty((*shape, matrices.shape[1]), np.float32)
    first = samples if isinstance(samples, np.ndarray) else samples[0]
    fits = matrices.ndim == 3 and max(matrices.shape[1:]) <= _MOST_COORDINATES
    if compiled is None or not fits or not points.size or first.dtype != np.float32:
        return None
    counts = np.empty(len(matrices), np.int64)
    counts[:] = count
    try:
        compiled.map_points(samples, counts, np.ascontiguousarray(matrices), np.ascontiguousarray(offsets), points)
    except (BufferError, ValueError):  # a sample isn't contiguous
        return None
    return points
