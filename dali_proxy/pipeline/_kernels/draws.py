"""Launcher of draws.cu: draws the numbers of a NumPy generator on the GPU."""

from __future__ import annotations

import numpy as np

from dali_proxy.pipeline._arrays import UInt64s
from dali_proxy.pipeline._cuda.launch import ADDRESS, Launch, blocks_for, ctype
from dali_proxy.pipeline._kernels.rows import zeros
from dali_proxy.pipeline._kernels.samples import Samples
from dali_proxy.pipeline._rng import NUMBERS_PER_COUNT, Distribution, RandomNumbers

#: struct Sample of draws.cu.
_SAMPLE = np.dtype(
    [
        *[("dst", ADDRESS), ("count", "u8"), ("start", "u8")],
        *[("low", "f8"), ("range", "f8"), ("limit", "f8"), ("first", "u8"), ("length", "f8")],
    ],
    align=True,
)


def plan_draws(
    dst: Samples, numbers: RandomNumbers, distribution: Distribution, starts: UInt64s | None = None
) -> Launch | None:
    """Return the launch that computes the numbers of a distribution from ``numbers.uniform()``; None for no elements.

    `starts`, multiples of four, are where the numbers of each sample start; by default, samples follow each other.

    Returns:
        The launch, or None if the samples are empty.
    """
    lists = distribution.lists
    table = zeros(len(dst), _SAMPLE)
    table["dst"] = dst.pointers
    table["count"] = np.prod(dst.shapes, axis=1, dtype=np.int64)
    table["start"] = np.cumsum(table["count"]) - table["count"] if starts is None else starts
    table["low"], table["range"], table["limit"] = distribution.low, distribution.range, distribution.limit
    table["first"], table["length"] = np.arange(len(lists)) * lists.shape[1], distribution.lengths
    most = int(table["count"].max())
    if not most:
        return None
    defines = (("OUT", ctype(dst.dtype)), ("KIND", str(distribution.kind)))
    grid = (blocks_for(most + NUMBERS_PER_COUNT, NUMBERS_PER_COUNT), len(dst))
    return Launch("draws.cu", "draw_numbers", defines, (table, lists.ravel()), grid, draw_scalars(numbers))


def draw_scalars(numbers: RandomNumbers) -> tuple[np.generic, ...]:
    """Return the scalars of the launch: the key of the generator, and its counter without the first word."""
    assert not numbers.counter[0]  # batches count in the other words
    return (*numbers.key, *numbers.counter[1:])
