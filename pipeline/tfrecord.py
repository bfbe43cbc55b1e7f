"""Descriptions of the features that `fn.readers.tfrecord` extracts, with the names of NVIDIA DALI."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from pipeline.errors import ArgumentMismatchError

__all__ = ["Feature", "FeatureType", "FixedLenFeature", "VarLenFeature", "float32", "int64", "string"]


class FeatureType(IntEnum):
    """Types of the values of a feature. The values are those of NVIDIA DALI."""

    int64 = 0
    string = 1
    float32 = 2


int64 = FeatureType.int64
string = FeatureType.string
float32 = FeatureType.float32


@dataclass(frozen=True)
class Feature:
    """A feature to extract. `FixedLenFeature` and `VarLenFeature` create it.

    Attributes:
        dtype: type of the values.
        shape: shape of the output; for features of any length, the shape of the output without its first dimension.
        fixed: whether the length is fixed.
        default_value: value of missing elements in DALI's interface; outputs have zeros instead, as in DALI.
    """

    dtype: FeatureType
    shape: tuple[int, ...]
    fixed: bool
    default_value: Any = None


def FixedLenFeature(shape: Sequence[int], dtype: int, default_value: Any) -> Feature:
    """Describe a feature with a fixed number of values.

    Args:
        shape: shape of the output; strings may have any shape, and are 1-D outputs of bytes.
        dtype: `int64`, `float32` or `string`.
        default_value: a value of this type.

    Raises:
        ArgumentMismatchError: an argument has the wrong type.

    Example:
        >>> FixedLenFeature([1], int64, -1).shape
        (1,)
    """
    return Feature(_type(dtype), _shape(shape), True, default_value)


def VarLenFeature(*arguments: Any) -> Feature:
    """Describe a feature with any number of values: ``VarLenFeature([partial_shape,] dtype, default_value)``.

    Args:
        arguments: optionally the shape of the output without its first dimension, which then follows from the number
            of values; `int64` or `float32`; and a value of this type.

    Raises:
        ArgumentMismatchError: an argument is missing or has the wrong type.

    Example:
        >>> VarLenFeature([4], float32, 0.0).shape
        (4,)
    """
    if not 2 <= len(arguments) <= 3:
        raise ArgumentMismatchError(f"VarLenFeature takes [partial_shape,] dtype and default_value, not {arguments!r}")
    *shape, dtype, default_value = arguments
    return Feature(_type(dtype), _shape(shape[0] if shape else ()), False, default_value)


def _type(dtype: Any) -> FeatureType:
    try:
        return FeatureType(dtype)
    except ValueError as error:
        raise ArgumentMismatchError(f"the type of a feature must be int64, float32 or string, not {dtype!r}") from error


def _shape(shape: Any) -> tuple[int, ...]:
    try:
        extents = tuple(int(extent) for extent in shape)
    except TypeError as error:
        raise ArgumentMismatchError(f"the shape of a feature must be a list of integers, not {shape!r}") from error
    if any(extent < 0 for extent in extents):
        raise ArgumentMismatchError(f"the shape of a feature must not be negative: {shape!r}")
    return extents
