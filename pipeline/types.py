"""Dtypes, image types and interpolations with the names of NVIDIA DALI, and constants of a graph."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.errors import ArgumentOverflowError, ArgumentTypeError

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


@dataclass(frozen=True, eq=False)
class Constant:
    """A constant of a graph: all samples of all batches have the same value.

    It can be used like a `DataNode`: as an input of an operator, in arithmetic, and as an output.

    Args:
        value: a number, a (nested) list or tuple of numbers, or a NumPy array.
        dtype: dtype of the elements; by default int32 for Python ints, float32 for floats, bool for bools, and the
            dtype of the array for arrays.
        shape: shape of the samples; a scalar is repeated to fill it.
        layout: layout of the samples, such as "HWC".
        device: "cpu" or "gpu".

    Example:
        >>> Constant([0.5, 0.5, 0.5], dtype=FLOAT).array().dtype
        dtype('float32')
    """

    value: Any
    dtype: DALIDataType | None = None
    shape: tuple[int, ...] | None = None
    layout: str | None = None
    device: str | None = None

    def array(self) -> npt.NDArray[Any]:
        """Return the value as a NumPy array of the constant's dtype and shape.

        Raises:
            ArgumentTypeError: the value doesn't consist of numbers.
            ArgumentOverflowError: a Python integer needs more than 32 bits, and no dtype was given.
        """
        array = np.asarray(self.value)
        if self.dtype is not None:
            array = array.astype(to_numpy_type(self.dtype))
        elif not isinstance(self.value, np.ndarray | np.generic):
            if array.dtype == np.float64:
                array = array.astype(np.float32)
            elif array.dtype in (np.int64, np.uint64):
                narrow = array.astype(np.int32)
                if not np.array_equal(narrow, array):
                    raise ArgumentOverflowError(f"{self.value!r} doesn't fit into int32: give the constant a dtype")
                array = narrow
        to_dali_type(array.dtype)  # rejects objects and strings
        if self.shape is not None:
            array = np.full(self.shape, array) if array.ndim == 0 else array.reshape(self.shape)
        return array
