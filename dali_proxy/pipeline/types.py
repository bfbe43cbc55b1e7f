"""Dtypes, image types and interpolations with the names of NVIDIA DALI, and constants of a graph."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline.errors import ArgumentTypeError

__all__ = [
    "ANY_DATA",
    "BGR",
    "BOOL",
    "DATA_TYPE",
    "FEATURE",
    "FLOAT",
    "FLOAT16",
    "FLOAT64",
    "GRAY",
    "IMAGE_TYPE",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "INTERP_CUBIC",
    "INTERP_GAUSSIAN",
    "INTERP_LANCZOS3",
    "INTERP_LINEAR",
    "INTERP_NN",
    "INTERP_TRIANGULAR",
    "INTERP_TYPE",
    "NCHW",
    "NHWC",
    "NO_TYPE",
    "PYTHON_OBJECT",
    "RGB",
    "STRING",
    "TENSOR_LAYOUT",
    "UINT8",
    "UINT16",
    "UINT32",
    "UINT64",
    "BatchInfo",
    "Constant",
    "DALIDataType",
    "DALIImageType",
    "DALIInterpType",
    "SampleInfo",
    "ScalarConstant",
    "YCbCr",
    "to_dali_type",
    "to_numpy_type",
]


class DALIDataType(IntEnum):
    """Element types of tensors, and types of arguments. The values are those of NVIDIA DALI.

    Tensors have the types up to `BOOL`; the others describe arguments of operators.
    """

    NO_TYPE = -1
    UINT8 = 0
    UINT16 = 1
    UINT32 = 2
    UINT64 = 3
    INT8 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    FLOAT16 = 8
    FLOAT = 9
    FLOAT64 = 10
    BOOL = 11
    STRING = 12
    _BOOL_VEC = 13
    _INT32_VEC = 14
    _STRING_VEC = 15
    _FLOAT_VEC = 16
    FEATURE = 17
    _FEATURE_VEC = 18
    _FEATURE_DICT = 19
    IMAGE_TYPE = 20
    DATA_TYPE = 21
    INTERP_TYPE = 22
    TENSOR_LAYOUT = 23
    PYTHON_OBJECT = 24
    _TENSOR_LAYOUT_VEC = 25
    _DATA_TYPE_VEC = 26
    _INT64_VEC = 27

    def __repr__(self) -> str:
        return f"DALIDataType.{self.name}"

    __str__ = __repr__

    def __call__(self) -> str:
        """Return the type in the notation of the buffer protocol: in old versions of DALI, ``dtype`` was a method."""
        warnings.warn("Calling '.dtype()' is deprecated, please use '.dtype' instead", Warning, stacklevel=2)
        return f"={to_numpy_type(self).char}"


class DALIImageType(IntEnum):
    """Colour models of decoded images. The values are those of NVIDIA DALI."""

    RGB = 0
    BGR = 1
    GRAY = 2
    YCbCr = 3
    ANY_DATA = 4

    def __repr__(self) -> str:
        return f"DALIImageType.{self.name}"

    __str__ = __repr__


class DALIInterpType(IntEnum):
    """Interpolation methods of resampling operators. The values are those of NVIDIA DALI."""

    INTERP_NN = 0
    INTERP_LINEAR = 1
    INTERP_CUBIC = 2
    INTERP_LANCZOS3 = 3
    INTERP_TRIANGULAR = 4
    INTERP_GAUSSIAN = 5

    def __repr__(self) -> str:
        return f"DALIInterpType.{self.name}"

    __str__ = __repr__


NO_TYPE = DALIDataType.NO_TYPE
UINT8 = DALIDataType.UINT8
UINT16 = DALIDataType.UINT16
UINT32 = DALIDataType.UINT32
UINT64 = DALIDataType.UINT64
INT8 = DALIDataType.INT8
INT16 = DALIDataType.INT16
INT32 = DALIDataType.INT32
INT64 = DALIDataType.INT64
FLOAT16 = DALIDataType.FLOAT16
FLOAT = DALIDataType.FLOAT
FLOAT64 = DALIDataType.FLOAT64
BOOL = DALIDataType.BOOL
STRING = DALIDataType.STRING
FEATURE = DALIDataType.FEATURE
IMAGE_TYPE = DALIDataType.IMAGE_TYPE
DATA_TYPE = DALIDataType.DATA_TYPE
INTERP_TYPE = DALIDataType.INTERP_TYPE
TENSOR_LAYOUT = DALIDataType.TENSOR_LAYOUT
PYTHON_OBJECT = DALIDataType.PYTHON_OBJECT

RGB = DALIImageType.RGB
BGR = DALIImageType.BGR
GRAY = DALIImageType.GRAY
YCbCr = DALIImageType.YCbCr
ANY_DATA = DALIImageType.ANY_DATA

INTERP_NN = DALIInterpType.INTERP_NN
INTERP_LINEAR = DALIInterpType.INTERP_LINEAR
INTERP_CUBIC = DALIInterpType.INTERP_CUBIC
INTERP_LANCZOS3 = DALIInterpType.INTERP_LANCZOS3
INTERP_TRIANGULAR = DALIInterpType.INTERP_TRIANGULAR
INTERP_GAUSSIAN = DALIInterpType.INTERP_GAUSSIAN

# Deprecated layout names that old scripts still use.
NHWC = "HWC"
NCHW = "CHW"

_NUMPY_OF: dict[DALIDataType, np.dtype[Any]] = {
    UINT8: np.dtype(np.uint8),
    UINT16: np.dtype(np.uint16),
    UINT32: np.dtype(np.uint32),
    UINT64: np.dtype(np.uint64),
    INT8: np.dtype(np.int8),
    INT16: np.dtype(np.int16),
    INT32: np.dtype(np.int32),
    INT64: np.dtype(np.int64),
    FLOAT16: np.dtype(np.float16),
    FLOAT: np.dtype(np.float32),
    FLOAT64: np.dtype(np.float64),
    BOOL: np.dtype(np.bool_),
}
_DALI_OF: dict[np.dtype[Any], DALIDataType] = {dtype: name for name, dtype in _NUMPY_OF.items()}


def to_numpy_type(dtype: DALIDataType | int) -> np.dtype[Any]:
    """Return the NumPy dtype of a DALI dtype.

    Raises:
        ArgumentTypeError: the value is `NO_TYPE`, or isn't a dtype.

    Example:
        >>> to_numpy_type(FLOAT)
        dtype('float32')
    """
    try:
        return _NUMPY_OF[DALIDataType(dtype)]
    except (KeyError, ValueError):
        raise ArgumentTypeError(f"{dtype!r} has no NumPy dtype") from None


def to_dali_type(dtype: npt.DTypeLike) -> DALIDataType:
    """Return the DALI dtype of a NumPy dtype.

    Raises:
        ArgumentTypeError: the dtype isn't supported: object, string, complex, structured or non-native.

    Example:
        >>> to_dali_type("uint8")
        DALIDataType.UINT8
    """
    found = _DALI_OF.get(np.dtype(dtype))
    if found is None:
        raise ArgumentTypeError(
            f"dtype {np.dtype(dtype)} is not supported; supported are {', '.join(str(known) for known in _DALI_OF)}"
        )
    return found


@dataclass(frozen=True)
class SampleInfo:
    """The sample that an `external_source` requests from its source.

    Attributes:
        idx_in_epoch: number of the sample within its epoch, from 0.
        idx_in_batch: position of the sample in its batch.
        iteration: number of the batch within its epoch, from 0.
        epoch_idx: number of the epoch, from 0.
    """

    idx_in_epoch: int
    idx_in_batch: int
    iteration: int
    epoch_idx: int


@dataclass(frozen=True)
class BatchInfo:
    """The batch that an `external_source` requests from its source.

    Attributes:
        iteration: number of the batch within its epoch, from 0.
        epoch_idx: number of the epoch, from 0.
    """

    iteration: int
    epoch_idx: int


@dataclass(frozen=True, eq=False, repr=False)
class ScalarConstant:
    """A number of a graph: all samples of all batches have the same value. `Constant` creates it.

    It can be an operand of arithmetic, an input or an argument of an operator, and an output. The methods `bool`,
    `int8` to `int64`, `uint8` to `uint64` and `float16` to `float64` return it with another dtype.

    Args:
        value: the number.
        dtype: its dtype; by default int32 for Python ints, float32 for floats, bool for bools, and the dtype of the
            number for NumPy's numbers.

    Raises:
        ArgumentTypeError: the value isn't a number, or the dtype isn't a `DALIDataType` of numbers.

    Example:
        >>> ScalarConstant(5).uint8()
        5:DALIDataType.UINT8
    """

    value: Any
    dtype: DALIDataType = NO_TYPE

    #: The shape: a number has no dimensions.
    shape: ClassVar[tuple[int, ...]] = ()

    def __post_init__(self) -> None:
        value, dtype = self.value, self.dtype
        if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
            dtype = to_dali_type(value.dtype) if dtype in (None, NO_TYPE) else dtype
            value = value.item()
        if not isinstance(value, bool | int | float):
            raise ArgumentTypeError(f"a constant must be a bool, an int or a float, not {type(value).__name__}")
        if dtype in (None, NO_TYPE):
            dtype = BOOL if isinstance(value, bool) else INT32 if isinstance(value, int) else FLOAT
        if not isinstance(dtype, DALIDataType) or dtype not in _NUMPY_OF:
            known = ", ".join(each.name for each in _NUMPY_OF)
            raise ArgumentTypeError(f"the dtype of a constant must be one of {known}, not {dtype!r}")
        kind = {"b": bool, "f": float}.get(_NUMPY_OF[dtype].kind, int)
        object.__setattr__(self, "value", kind(value))
        object.__setattr__(self, "dtype", dtype)

    def __repr__(self) -> str:
        return f"{self.value}:{self.dtype!r}"

    def __bool__(self) -> bool:
        return bool(self.value)

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, ScalarConstant):
            return NotImplemented  # a data node creates a comparison of the graph
        return self.value == other.value and self.dtype is other.dtype

    def __hash__(self) -> int:
        return hash((self.value, self.dtype))


def _cast(name: str, dtype: DALIDataType) -> Callable[[ScalarConstant], ScalarConstant]:
    def cast(self: ScalarConstant) -> ScalarConstant:
        return ScalarConstant(self.value, dtype)

    cast.__name__ = name
    cast.__qualname__ = f"ScalarConstant.{name}"
    cast.__doc__ = f"Return the number as {dtype.name}."
    return cast


for _dtype, _numpy in _NUMPY_OF.items():
    setattr(ScalarConstant, _numpy.name, _cast(_numpy.name, _dtype))


def _is_tensor(value: Any) -> bool:
    """Return whether a value is an array of another library than NumPy."""
    return hasattr(value, "__array__") and not isinstance(value, np.generic | np.ndarray)


def Constant(
    value: Any,
    dtype: DALIDataType | None = None,
    shape: Any = None,
    layout: str | None = None,
    device: str | None = None,
    name: str | None = None,
) -> Any:
    """Return a constant of a graph: all samples of all batches have the same value.

    It can be used like a `DataNode`: as an input or an argument of an operator, in arithmetic, and as an output.

    Args:
        value: a number, a (nested) list or tuple of numbers, or an array of NumPy, torch or another library.
        dtype: dtype of the elements. By default Python's ints become int32, floats float32 and bools bool. Arrays and
            NumPy's numbers keep their dtype, but arrays of 64 bits become arrays of 32 bits.
        shape: shape of the samples; a single value is repeated to fill it.
        layout: layout of the samples, such as "HWC".
        device: "cpu" or "gpu".
        name: name of the operator that returns the constant.

    Returns:
        A `ScalarConstant` for a number without further arguments than `dtype`; otherwise a `DataNode`.

    Raises:
        ArgumentTypeError: the value doesn't consist of numbers, or the dtype isn't one.
        ArgumentOverflowError: an integer needs more than 32 bits, and no dtype was given.
    """
    only_number = shape is None and layout is None and device is None and name is None
    is_array = isinstance(value, list | tuple) or getattr(value, "ndim", None) or _is_tensor(value)
    if only_number and not is_array:
        return ScalarConstant(value, NO_TYPE if dtype is None else dtype)
    from dali_proxy.pipeline._catalog import (
        constant_node,  # adds an operator to a graph; the rest of this module needs neither
    )

    return constant_node(value, dtype, shape, layout, device, name)
