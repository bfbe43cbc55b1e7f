"""Launcher of evaluate.cu: computes the pixels of expressions."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from dali_proxy.pipeline._arrays import Array, Int64s
from dali_proxy.pipeline._cuda.launch import ADDRESS, Launch
from dali_proxy.pipeline._kernels.noise import Noise
from dali_proxy.pipeline._kernels.rows import containing
from dali_proxy.pipeline._kernels.samples import Samples

#: Columns of a block's threads, and rows; evaluate.cu has the same numbers.
TILE_WIDTH, LINES = 32, 8
_PIXELS = 4
#: Blocks of a sample up to which the largest extents of the samples may belong to different samples.
_MANY_BLOCKS = 1 << 16
#: Expressions that keep pixels in shared memory.
_KEEPING = ("Resize<", "Cached<")
#: Expressions whose pixels need so many registers, or loops of such different lengths, that a thread computes one.
_LARGE = ("Convolve<", "Median<", f"Noise<{Noise.SHOT.value},")
#: Shared memory of a block that keeps pixels there: six blocks fit on a multiprocessor of 228 KB.
SHARED_BYTES = 32 << 10


def plan_evaluation(
    expression: str, rows: Array, extents: Int64s, target: Samples, columns: slice | list[int]
) -> Launch:
    """Return the launch that writes the pixels of an expression to memory.

    Args:
        expression: C++ type of the expression.
        rows: parameters of the samples, (N,).
        extents: depth, height and width of each sample, (N, 3).
        target: samples of the same extents, with any strides.
        columns: position of each dimension of `target` among depth, height, width and channels.
    """
    table = containing(rows, "value", _image(rows.dtype))
    table["target"] = target.pointers
    table["strides"][:, columns] = target.strides
    table["extents"] = extents
    depth, height, width = extents.max(axis=0).tolist()
    lines = LINES * _pixels(expression)
    blocks = max(1, depth * -(-height // lines) * -(-width // TILE_WIDTH))
    if blocks > _MANY_BLOCKS:  # maybe no sample has all of these extents
        blocks = int((extents[:, 0] * -(-extents[:, 1] // lines) * -(-extents[:, 2] // TILE_WIDTH)).max())
    defines = evaluation_defines(expression, table.dtype.itemsize)
    return Launch("evaluate.cu", "evaluate", defines, (table,), (blocks, len(rows)))


@cache
def evaluation_defines(expression: str, row_bytes: int) -> tuple[tuple[str, str], ...]:
    """Return the macros of evaluate.cu for a C++ type. The compiler checks the size of a row of the table."""
    numbers = {"ROW_BYTES": row_bytes, "PIXELS": _pixels(expression), "SHARED_BYTES": SHARED_BYTES}
    return ("EXPRESSION", expression), *((name, str(number)) for name, number in numbers.items())


@cache
def _pixels(expression: str) -> int:
    """Return the number of pixels that a thread computes at once."""
    if any(name in expression for name in _KEEPING):
        return _PIXELS
    return 1 if any(name in expression for name in _LARGE) else _PIXELS


@cache
def _image(value: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of struct Image of evaluate.cu."""
    head = [("target", ADDRESS), ("strides", "i8", (4,)), ("extents", "u4", (3,))]
    return np.dtype([*head, ("value", value)], align=True)
