"""Launcher of matrix_axis.cu: multiplies vectors along one axis of samples by matrices, in one launch per batch."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._arrays import Array, Float32s
from dali_proxy.pipeline._cuda.launch import ADDRESS, Launch, blocks_for, ctype
from dali_proxy.pipeline._kernels.samples import Samples

#: struct Sample of matrix_axis.cu.
_SAMPLE = np.dtype(
    [
        *[("src", ADDRESS), ("dst", ADDRESS)],
        *((name, "i8") for name in ("count", "rows", "inner", "extent", "matrix", "range")),
    ]
)
_RANGE = np.dtype([("begin", "i4"), ("end", "i4")])


class AxisMatrices:
    """Matrices for vectors of a few extents, computed once for each of them.

    Args:
        matrix_of: function that returns the matrix (rows, extent) for vectors of an extent.
    """

    def __init__(self, matrix_of: Callable[[int], Float32s]) -> None:
        self._matrix_of = matrix_of
        #: Returns the weights, (rows * extent,), and the ranges of columns that aren't 0, (rows,).
        self.tables = lru_cache(maxsize=16)(self._tables)

    def _tables(self, extent: int) -> tuple[Float32s, Array]:
        matrix = self._matrix_of(extent)
        return matrix.reshape(-1).astype(np.float32), _ranges(matrix)


def plan_matrix_axis(src: Samples, dst: Samples, axis: int, matrices: AxisMatrices) -> Launch | None:
    """Return the launch, or None if the output is empty.

    Args:
        src: contiguous samples of any dtype.
        dst: contiguous float32 samples of the same shapes, except for the axis.
        axis: axis of the vectors.
        matrices: the matrix for each extent of the vectors.
    """
    table = np.zeros(len(src), _SAMPLE)
    table["src"], table["dst"] = src.pointers, dst.pointers
    table["count"] = np.prod(dst.shapes, axis=1, dtype=np.int64)
    most = int(table["count"].max())
    if not most:
        return None
    table["rows"] = np.maximum(1, dst.shapes[:, axis])
    table["inner"] = np.maximum(1, np.prod(src.shapes[:, axis + 1 :], axis=1, dtype=np.int64))
    table["extent"] = src.shapes[:, axis]
    extents, numbers = np.unique(src.shapes[:, axis], return_inverse=True)
    weights, ranges = zip(*map(matrices.tables, extents.tolist()), strict=True)
    for name, parts in (("matrix", weights), ("range", ranges)):
        sizes = np.array([len(part) for part in parts])
        table[name] = (np.cumsum(sizes) - sizes)[numbers]
    tables = (table, np.concatenate(weights), np.concatenate(ranges))
    grid = (blocks_for(most), len(src))
    defines = (("IN", ctype(src.dtype)),)
    return Launch("audio/matrix_axis.cu", "matrix_axis", defines, tables, grid)


def _ranges(matrix: Float32s) -> npt.NDArray[np.void]:
    """Return the range of the columns of each row that aren't 0."""
    ranges = np.zeros(len(matrix), _RANGE)
    used = matrix != 0
    if matrix.size:
        ranges["begin"] = used.argmax(axis=1)
        ranges["end"] = np.where(used.any(axis=1), matrix.shape[1] - used[:, ::-1].argmax(axis=1), ranges["begin"])
    return ranges
