"""Windows of filters for kernels: the weights of each sample begin with the first one of its window."""

from __future__ import annotations

import numpy as np

from dali_proxy.pipeline._arrays import Float32s, Int64s
from dali_proxy.pipeline._imaging.native import compiled


def aligned_windows(weights: Float32s, radii: Int64s, width: int) -> Float32s:
    """Return windows at the begin of rows of zeros, (N, width).

    Args:
        weights: (N, odd length); narrower windows are in the middle.
        radii: number of weights on each side of the middle, (N,).
        width: length of the rows.

    Example:
        >>> aligned_windows(np.float32([[0, 1, 0], [3, 4, 3]]), np.array([0, 1]), 4).tolist()
        [[1.0, 0.0, 0.0, 0.0], [3.0, 4.0, 3.0, 0.0]]
    """
    aligned = np.zeros((len(weights), width), np.float32)
    if compiled is not None:
        compiled.align_windows(np.ascontiguousarray(weights), np.ascontiguousarray(radii), aligned)
        return aligned
    middle = weights.shape[1] // 2
    columns = np.arange(weights.shape[1]) - middle + radii[:, None]
    inside = (columns >= 0) & (columns <= 2 * radii[:, None])
    aligned[np.nonzero(inside)[0], columns[inside]] = weights[inside]
    return aligned
