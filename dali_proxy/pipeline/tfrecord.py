"""Features of TFRecord files: what to read of each record.

Example:
    >>> from dali_proxy.pipeline import tfrecord
    >>> tfrecord.FixedLenFeature([], tfrecord.string, "").shape
    ()
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dali_proxy.pipeline.errors import ArgumentMismatchError, ArgumentValueError, InputTypeError

__all__ = ["Feature", "FixedLenFeature", "VarLenFeature", "float32", "int64", "string"]

int64 = 0
"""Features of integers."""
string = 1
"""Features of bytes, such as encoded images."""
float32 = 2
"""Features of real numbers."""

_DEFAULTS: dict[int, tuple[type, ...]] = {int64: (int,), string: (str, bytes), float32: (float,)}


@dataclass(frozen=True)
class Feature:
    """A feature to read. `FixedLenFeature` and `VarLenFeature` create it.

    Attributes:
        shape: shape of the values; for a feature of variable length, the shape of one item; None for single values.
        dtype: `int64`, `string` or `float32`.
        default_value: value in place of a missing feature.
        variable: whether the number of values differs from record to record.
    """

    shape: tuple[int, ...] | None
    dtype: int
    default_value: Any
    variable: bool = False

    def __post_init__(self) -> None:
        if self.dtype not in _DEFAULTS:
            raise ArgumentValueError(f"the dtype of a feature must be int64, string or float32, not {self.dtype!r}")
        kinds = _DEFAULTS[self.dtype]
        if not isinstance(self.default_value, kinds) or isinstance(self.default_value, bool):
            expected = " or ".join(kind.__name__ for kind in kinds)
            raise InputTypeError(f"Invalid type for default value, expected {expected}: {self.default_value!r}")


def FixedLenFeature(shape: Sequence[int], dtype: int, default_value: Any) -> Feature:
    """Return a feature with the same number of values in all records.

    Args:
        shape: shape of the values; empty for a single value.
        dtype: `int64`, `string` or `float32`.
        default_value: value in place of a missing feature.

    Raises:
        ArgumentMismatchError, ArgumentValueError, InputTypeError: an argument can't be used.
    """
    return Feature(_shape(shape), dtype, default_value)


def VarLenFeature(*arguments: Any) -> Feature:
    """Return a feature whose number of values differs from record to record.

    Args:
        *arguments: dtype and default value, or the shape of one item, dtype and default value.

    Raises:
        ArgumentMismatchError, ArgumentValueError, InputTypeError: an argument can't be used.
    """
    if len(arguments) not in (2, 3):
        raise ArgumentMismatchError(
            f"VarLenFeature() takes (dtype, default_value) or (shape, dtype, default_value), not {len(arguments)} "
            "values"
        )
    *shape, dtype, default_value = arguments
    return Feature(_shape(shape[0]) if shape else None, dtype, default_value, variable=True)


def _shape(shape: Any) -> tuple[int, ...]:
    if not hasattr(shape, "__iter__") or isinstance(shape, str):
        raise ArgumentMismatchError(f"the shape of a feature must be a sequence of int, not {type(shape).__name__}")
    return tuple(int(length) for length in shape)
