"""Code that several operators on signals share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._kernels import Samples
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array


def as_floats(data: Array) -> Array:
    """Return a sample in float32.

    Raises:
        ArgumentValueError: the sample doesn't contain numbers.
    """
    check_numbers(data.dtype)
    return data.astype(np.float32, copy=False)


def check_numbers(dtype: np.dtype[Any]) -> None:
    """Check the dtype of samples.

    Raises:
        ArgumentValueError: the samples don't contain numbers.
    """
    if dtype.kind not in "iuf":
        raise ArgumentValueError(f"the samples must be numbers, not {dtype}; use fn.cast")


def as_signal(data: Array) -> Array:
    """Return a signal as an array of one dimension.

    Raises:
        ArgumentValueError: more than one dimension has an extent other than 1.
    """
    _check_signal(data.shape)
    return data.reshape(-1)


def _check_signal(shape: Sequence[int]) -> None:
    if math.prod(shape) != max(shape, default=1):
        raise ArgumentValueError(
            "Input data must be 1D or all but one dimensions must be degenerate (extent 1). Got: "
            f"{' x '.join(map(str, shape))}"
        )


def signals_of(samples: Samples) -> Samples:
    """Return contiguous samples on the GPU as signals of one dimension; see `as_signal`."""
    check_numbers(samples.dtype)
    for shape in samples.shapes.tolist():
        _check_signal(shape)
    return Samples.contiguous(samples.pointers, samples.shapes.prod(axis=1, keepdims=True), samples.dtype)


def check_axis(axis: int, ndim: int) -> int:
    """Return an axis counted from the start.

    Raises:
        ArgumentValueError: the samples don't have this axis.
    """
    if not -ndim <= axis < ndim:
        raise ArgumentValueError(f"Axis {axis} is out of bounds [0,{ndim})")
    return axis % ndim


def check_power(power: int) -> int:
    """Return the exponent of a magnitude.

    Raises:
        ArgumentValueError: it is neither 1 nor 2.
    """
    if power not in (1, 2):
        raise ArgumentValueError(f"`power` can be only 1 (energy) or 2 (power), received {power}")
    return power
