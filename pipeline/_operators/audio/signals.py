"""Code that several operators on signals share."""

from __future__ import annotations

import numpy as np

from pipeline.errors import ArgumentValueError
from pipeline.tensors.cpu import Array

__all__ = ["as_floats", "as_signal", "check_axis", "check_power"]


def as_floats(data: Array) -> Array:
    """Return a sample in float32.

    Raises:
        ArgumentValueError: the sample doesn't contain numbers.
    """
    if data.dtype.kind not in "iuf":
        raise ArgumentValueError(f"the samples must be numbers, not {data.dtype}; use fn.cast")
    return data.astype(np.float32, copy=False)


def as_signal(data: Array) -> Array:
    """Return a signal as an array of one dimension.

    Raises:
        ArgumentValueError: more than one dimension has an extent other than 1.
    """
    if data.size != max(data.shape, default=1):
        raise ArgumentValueError(
            f"the samples must be signals of one channel: 1-D, or all other extents 1, not of shape {data.shape}"
        )
    return data.reshape(-1)


def check_axis(axis: int, ndim: int) -> int:
    """Return an axis counted from the start.

    Raises:
        ArgumentValueError: the samples don't have this axis.
    """
    if not -ndim <= axis < ndim:
        raise ArgumentValueError(f"Axis {axis} is out of bounds [0,{ndim}): the samples have {ndim} dimensions")
    return axis % ndim


def check_power(power: int) -> int:
    """Return the exponent of a magnitude.

    Raises:
        ArgumentValueError: it is neither 1 nor 2.
    """
    if power not in (1, 2):
        raise ArgumentValueError(f"argument 'power' must be 1 (magnitude) or 2 (power), not {power}")
    return power
