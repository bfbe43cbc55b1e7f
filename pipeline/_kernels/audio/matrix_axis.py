"""Launcher of matrix_axis.cu: multiplies vectors along one axis of samples by matrices, in one launch per batch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pipeline._kernels.launch import Launch, blocks_for, ctype
from pipeline._kernels.samples import Samples

__all__ = ["plan_matrix_axis"]

#: struct Sample of matrix_axis.cu.
_SAMPLE = np.dtype([(name, "i8") for name in ("src", "dst", "count", "rows", "inner", "extent", "matrix", "range")])
_RANGE = np.dtype([("begin", "i4"), ("end", "i4")])


def plan_matrix_axis(
    src: Samples, dst: Samples, axis: int, matrix_of: Callable[[int], npt.NDArray[np.float32]]
) -> Launch | None:
    """Return the launch, or None if the output is empty.

    Args:
        src: contiguous samples of any dtype.
        dst: contiguous float32 samples of the same shapes, except for the axis.
        axis: axis of the vectors.
        matrix_of: function that returns the matrix (rows, extent) for vectors of an extent.
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
    matrices = [matrix_of(extent) for extent in extents.tolist()]
    sizes, rows = np.array([each.size for each in matrices]), np.array([len(each) for each in matrices])
    table["matrix"], table["range"] = (np.cumsum(sizes) - sizes)[numbers], (np.cumsum(rows) - rows)[numbers]
    weights = np.concatenate([each.reshape(-1) for each in matrices]).astype(np.float32)
    ranges = np.concatenate([_ranges(each) for each in matrices])
    grid = (blocks_for(most), len(src))
    defines = (("IN", ctype(src.dtype)),)
    return Launch("audio/matrix_axis.cu", "matrix_axis", defines, (table, weights, ranges), grid)


def _ranges(matrix: npt.NDArray[np.float32]) -> npt.NDArray[np.void]:
    """Return the range of the columns of each row that aren't 0."""
    ranges = np.zeros(len(matrix), _RANGE)
    used = matrix != 0
    if matrix.size:
        ranges["begin"] = used.argmax(axis=1)
        ranges["end"] = np.where(used.any(axis=1), matrix.shape[1] - used[:, ::-1].argmax(axis=1), ranges["begin"])
    return ranges
