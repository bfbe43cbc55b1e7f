"""Discrete cosine transforms, for cepstral coefficients."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from dali_proxy.pipeline._arrays import Array

DCT_TYPES = (1, 2, 3, 4)
# NumPy's OpenBLAS starts additional threads for products with more multiply-adds. Work must stay on the executor's
# threads.
_SINGLE_THREAD_PRODUCT = 1 << 18


@lru_cache(maxsize=16)
def cosine_matrix(length: int, count: int, kind: int, *, orthonormal: bool, lifter: float = 0.0) -> Array:
    """Return the matrix that computes the first coefficients of a discrete cosine transform.

    Args:
        length: number of inputs; at least 2 for type 1.
        count: number of coefficients, at most `length`.
        kind: one of `DCT_TYPES`, as numbered by convention.
        orthonormal: whether the full matrix is orthonormal; not for type 1.
        lifter: if it isn't 0, coefficient i is multiplied by ``1 + lifter / 2 * sin(pi * (i + 1) / lifter)``.

    Returns:
        float32 array of shape (count, length).
    """
    row, column = np.arange(count)[:, None], np.arange(length)[None, :]
    if kind == 1:
        matrix = np.cos(np.pi / (length - 1) * row * column)
        matrix[:, [0, -1]] /= 2
    elif kind == 2:
        matrix = np.cos(np.pi / length * row * (column + 0.5))
    elif kind == 3:
        matrix = np.cos(np.pi / length * (row + 0.5) * column)
        matrix[:, 0] /= np.sqrt(2) if orthonormal else 2
    else:
        matrix = np.cos(np.pi / length * (row + 0.5) * (column + 0.5))
    if orthonormal:
        matrix *= np.sqrt(2 / length)
        if kind == 2:
            matrix[0] /= np.sqrt(2)
    if lifter:
        matrix *= 1 + lifter / 2 * np.sin(np.pi / lifter * (row + 1))
    result: Array = matrix.astype(np.float32)
    result.flags.writeable = False
    return result


def transform_axis(matrix: Array, data: Array, axis: int) -> Array:
    """Return the products of a matrix with the vectors along one axis of a float32 array."""
    rows, length = matrix.shape
    result = np.empty((*data.shape[:axis], rows, *data.shape[axis + 1 :]), np.float32)
    if result.size:
        columns = np.moveaxis(data, axis, 0).reshape(length, -1)
        target = np.empty((rows, columns.shape[1]), np.float32)
        block = max(16, _SINGLE_THREAD_PRODUCT // matrix.size)
        for start in range(0, columns.shape[1], block):
            part = slice(start, start + block)
            np.matmul(matrix, columns[:, part], out=target[:, part])
        np.moveaxis(result, axis, 0)[...] = target.reshape(rows, *data.shape[:axis], *data.shape[axis + 1 :])
    return result
