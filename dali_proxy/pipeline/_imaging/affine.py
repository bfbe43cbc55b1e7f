"""Batches of affine transforms as matrices of shape (..., n, n + 1), which map points x to M[:, :n] x + M[:, n]."""

from __future__ import annotations

import numpy as np

from dali_proxy.pipeline._arrays import Array


def translation(offset: Array) -> Array:
    """Return the matrices that move points by offsets of shape (..., n).

    Example:
        >>> translation(np.array([2.0, 3.0])).tolist()
        [[1.0, 0.0, 2.0], [0.0, 1.0, 3.0]]
    """
    result = _diagonal(offset.shape, 1)
    result[..., -1] = offset
    return result


def scaling(factors: Array) -> Array:
    """Return the matrices that multiply coordinates by factors of shape (..., n)."""
    return _diagonal(factors.shape, factors)


def rotation(angle: Array, axis: Array | None = None) -> Array:
    """Return the matrices that rotate by angles in degrees, (...), from x to y or about axes in space.

    The axes, (..., 3), have any nonzero length.
    """
    radians = np.deg2rad(angle)
    cos, sin = np.cos(radians), np.sin(radians)
    if axis is None:
        result = np.zeros((*cos.shape, 2, 3))
        result[..., 0, 0] = result[..., 1, 1] = cos
        result[..., 0, 1], result[..., 1, 0] = -sin, sin
        return result
    unit = axis / np.linalg.norm(axis, axis=-1, keepdims=True)
    x, y, z = np.moveaxis(unit, -1, 0)
    zero = np.zeros_like(x)
    cross = np.stack([np.stack(row, -1) for row in ((zero, -z, y), (z, zero, -x), (-y, x, zero))], -2)
    along = unit[..., :, None] * unit[..., None, :]
    cos, sin = cos[..., None, None], sin[..., None, None]
    return _linear(cos * np.eye(3) + sin * cross + (1 - cos) * along)


def shearing(factors: Array, ndim: int) -> Array:
    """Return the matrices that shear; factors (..., n (n - 1)) fill the rows of the matrix outside its diagonal."""
    result = _diagonal((*factors.shape[:-1], ndim), 1)
    places = ((row, column) for row in range(ndim) for column in range(ndim) if row != column)
    for number, (row, column) in enumerate(places):
        result[..., row, column] = factors[..., number]
    return result


def mapping(from_start: Array, from_end: Array, to_start: Array, to_end: Array) -> Array:
    """Return the matrices that map one box to another; corners have shape (..., n). An empty box gives infinities."""
    with np.errstate(divide="ignore", invalid="ignore"):
        factors = (to_end - to_start) / (from_end - from_start)
        result = _diagonal(factors.shape, factors)
        result[..., -1] = to_start - factors * from_start
        return result


def about(matrix: Array, center: Array) -> Array:
    """Return the matrices that apply transforms about points of shape (..., n) instead of the origin."""
    moved: Array = matrix.copy()
    moved[..., -1] += center - (matrix[..., :-1] @ center[..., None])[..., 0]
    return moved


def compose(outer: Array, inner: Array) -> Array:
    """Return the matrices that apply `inner` first, then `outer`.

    Example:
        >>> compose(scaling(np.array([2.0])), translation(np.array([3.0]))).tolist()
        [[2.0, 6.0]]
    """
    result: Array = outer[..., :-1] @ inner
    result[..., -1] += outer[..., -1]
    return result


def invert(matrix: Array) -> Array:
    """Return the inverse transforms.

    Raises:
        numpy.linalg.LinAlgError: a matrix isn't invertible.
    """
    linear: Array = np.linalg.inv(matrix[..., :-1])
    return _with_offset(linear, -(linear @ matrix[..., -1:])[..., 0])


def _diagonal(shape: tuple[int, ...], values: Array | float) -> Array:
    """Return the matrices, for offsets of shape (..., n), with values on the diagonal, and zeros elsewhere."""
    *batch, ndim = shape
    result = np.zeros((*batch, ndim, ndim + 1))
    result.reshape(*batch, -1)[..., :: ndim + 2] = values
    return result


def _linear(linear: Array) -> Array:
    return _with_offset(linear, np.zeros(linear.shape[:-1]))


def _with_offset(linear: Array, offset: Array) -> Array:
    return np.concatenate([linear, offset[..., None]], axis=-1)
