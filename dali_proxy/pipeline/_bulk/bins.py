"""Distribution of samples over bins of limited size, so that all bins cost about the same."""

from __future__ import annotations

import math

import numpy as np

from dali_proxy.pipeline._arrays import Float64s, Int64s
from dali_proxy.pipeline._bulk.native import compiled


def fill_bins(lengths: Int64s, costs: Float64s, capacity: int, count: int) -> Int64s | None:
    """Distribute samples over a number of bins: the largest first, each into the bin that is then the lightest.

    The weight of a bin is the largest of its sums of costs, each relative to the mean of all bins. The result has the
    same bits on every machine.

    Args:
        lengths: lengths of the samples, (N,).
        costs: costs of the samples that are balanced, (N, kinds), at least one kind; none is negative.
        capacity: largest sum of lengths in a bin.
        count: number of bins.

    Returns:
        The bin of each sample; None if a sample fits into no bin any more.

    Example:
        >>> fill_bins(np.array([5, 3, 2, 4]), np.array([[5.0], [3.0], [2.0], [4.0]]), 7, 2).tolist()
        [0, 1, 0, 1]
    """
    totals = np.array([math.fsum(kind) or 1.0 for kind in costs.T.tolist()])  # exact, and so the same everywhere
    loads = costs / totals * count
    order = np.argsort(-loads.max(axis=1), kind="stable")
    items = np.ascontiguousarray(lengths[order], np.int64), np.ascontiguousarray(loads[order], np.float64)
    free, sums = np.full(count, capacity, np.int64), np.zeros((count, costs.shape[1]))
    homes = np.empty(len(order), np.int64)
    fill = _fill if compiled is None else compiled.fill_bins
    if fill(*items, free, sums, homes) < len(order):
        return None
    result = np.empty_like(homes)
    result[order] = homes
    return result


def _fill(lengths: Int64s, loads: Float64s, free: Int64s, sums: Float64s, homes: Int64s) -> int:
    """Do the same as `fill_bins` of the C module."""
    for item, (length, load) in enumerate(zip(lengths.tolist(), loads, strict=True)):
        weights = np.where(free < length, np.inf, (sums + load).max(axis=1))
        best = int(weights.argmin())
        if weights[best] == np.inf:
            return item
        sums[best] += load
        free[best] -= length
        homes[item] = best
    return len(homes)
