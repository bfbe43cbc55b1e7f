"""Launcher of evaluate.cu: computes the pixels of expressions."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline._cuda.launch import Launch
from pipeline._kernels.noise import Noise
from pipeline._kernels.rows import containing
from pipeline._kernels.samples import Samples

__all__ = ["evaluation_defines", "plan_evaluation"]

_TILE_HEIGHT, _TILE_WIDTH = 8, 32
_MOST_BLOCKS = 1 << 16
_PIXELS = 4
#: Expressions whose pixels need so many registers, or loops of such different lengths, that a thread computes one.
_LARGE = ("Resize<", "Convolve<", "Median<", f"Noise<{Noise.SHOT.value},")


def plan_evaluation(
    expression: str,
    rows: npt.NDArray[Any],
    extents: npt.NDArray[np.int64],
    target: Samples,
    columns: slice | list[int],
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
    tiles = depth * -(-height // (_TILE_HEIGHT * _pixels(expression))) * -(-width // _TILE_WIDTH)
    blocks = min(max(1, tiles), _MOST_BLOCKS)
    defines = evaluation_defines(expression, table.dtype.itemsize)
    return Launch("evaluate.cu", "evaluate", defines, (table,), (blocks, len(rows)))


@cache
def evaluation_defines(expression: str, row_bytes: int) -> tuple[tuple[str, str], ...]:
    """Return the macros of evaluate.cu.

    Args:
        expression: C++ type of the expression.
        row_bytes: size of a row of the launch's table; the compiler checks it.
    """
    return ("EXPRESSION", expression), ("ROW_BYTES", str(row_bytes)), ("PIXELS", str(_pixels(expression)))


@cache
def _pixels(expression: str) -> int:
    """Return the number of pixels that a thread computes at once."""
    return 1 if any(name in expression for name in _LARGE) else _PIXELS


@cache
def _image(value: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of struct Image of evaluate.cu."""
    head = [("target", "i8"), ("strides", "i8", (4,)), ("extents", "u4", (3,))]
    return np.dtype([*head, ("value", value)], align=True)
