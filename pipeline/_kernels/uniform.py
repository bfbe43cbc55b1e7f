"""Launcher of uniform.cu: draws the numbers of a NumPy generator on the GPU."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pipeline._kernels.launch import Launch, blocks_for, ctype
from pipeline._kernels.rows import zeros
from pipeline._kernels.samples import Samples
from pipeline._rng import NUMBERS_PER_COUNT

__all__ = ["plan_uniform", "uniform_scalars"]

#: struct Sample of uniform.cu.
_SAMPLE = np.dtype(
    [("dst", "i8"), ("count", "u8"), ("start", "u8"), ("low", "f8"), ("range", "f8"), ("limit", "f8")], align=True
)


def plan_uniform(
    dst: Samples,
    generator: np.random.Generator,
    *,
    low: npt.NDArray[np.float64],
    high: npt.NDArray[np.float64],
    limit: npt.NDArray[np.float64],
    starts: npt.NDArray[np.uint64] | None = None,
) -> Launch | None:
    """Return the launch that writes ``low + generator.random() * (high - low)``; None if there are no elements.

    Args:
        dst: contiguous samples.
        generator: an unused generator over Philox, which stays unused.
        low: lower ends, (N,).
        high: upper ends, (N,).
        limit: largest results, (N,).
        starts: where the numbers of each sample start in the sequence of the generator, multiples of four, (N,); by
            default samples share it, one after the other.
    """
    table = zeros(len(dst), _SAMPLE)
    table["dst"] = dst.pointers
    table["count"] = np.prod(dst.shapes, axis=1, dtype=np.int64)
    table["start"] = np.cumsum(table["count"]) - table["count"] if starts is None else starts
    table["low"], table["range"], table["limit"] = low, high - low, limit
    most = int(table["count"].max())
    if not most:
        return None
    grid = (blocks_for(most + NUMBERS_PER_COUNT, NUMBERS_PER_COUNT), len(dst))
    return Launch("uniform.cu", "uniform", (("T", ctype(dst.dtype)),), (table,), grid, uniform_scalars(generator))


def uniform_scalars(generator: np.random.Generator) -> tuple[np.generic, ...]:
    """Return the scalars of the launch: the key of the generator, and its counter without the first word."""
    state = generator.bit_generator.state["state"]
    first, *others = state["counter"]
    assert not first  # batches count in the other words
    return tuple([np.uint64(word) for word in (*state["key"], *others)])
