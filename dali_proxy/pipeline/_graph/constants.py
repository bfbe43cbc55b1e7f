"""Constants as NumPy arrays: the values that users pass, in the dtypes that DALI gives them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._concurrency.interrupts import pass_on_interrupt
from dali_proxy.pipeline.errors import ArgumentOverflowError, ArgumentTypeError, GraphError
from dali_proxy.pipeline.types import INT32, DALIDataType, ScalarConstant, to_dali_type, to_numpy_type

_NARROW = {np.dtype(np.int64): np.int32, np.dtype(np.uint64): np.uint32, np.dtype(np.float64): np.float32}


def is_constant(value: Any) -> bool:
    """Return whether a value may stand where a data node is expected: a number, a list of numbers or an array."""
    if isinstance(value, bool | int | float | list | tuple | np.ndarray | np.generic | ScalarConstant):
        return True
    return not isinstance(value, type) and hasattr(value, "__array__") and hasattr(value, "shape")


def constant_array(value: Any, dtype: DALIDataType | None = None, shape: Any = None) -> npt.NDArray[Any]:
    """Return a constant as an array.

    Args:
        value: as for `types.Constant`.
        dtype: dtype of the elements; None for the default that `types.Constant` describes.
        shape: shape of the array; a single value is repeated to fill it. None for the shape of the value.

    Raises:
        ArgumentTypeError: the value doesn't consist of numbers, or it can't have the dtype or the shape.
        ArgumentOverflowError: an integer needs more than 32 bits, and no dtype was given.
    """
    try:
        array = np.asarray(value.value if isinstance(value, ScalarConstant) else value)
        if isinstance(value, ScalarConstant) and dtype is None:
            array = (narrow(array) if value.dtype is INT32 else array).astype(to_numpy_type(value.dtype))
        if dtype is not None:
            array = array.astype(to_numpy_type(dtype))
        elif isinstance(value, np.ndarray | np.generic | bool | int | float | list | tuple):
            array = narrow(array)
        to_dali_type(array.dtype)  # rejects objects and strings
        if shape is not None:
            extents = tuple(shape) if isinstance(shape, Sequence | np.ndarray) else (shape,)
            array = np.full(extents, array.ravel()[0]) if array.size == 1 else array.reshape(extents)
    except OverflowError as error:
        pass_on_interrupt(error)
        raise ArgumentOverflowError(str(error)) from error
    except (TypeError, ValueError) as error:
        pass_on_interrupt(error)
        raise error if isinstance(error, GraphError) else ArgumentTypeError(str(error)) from error
    return array


def narrow(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array with 32 bits per element instead of 64, as DALI's constants have.

    Raises:
        ArgumentOverflowError: an integer doesn't fit.
    """
    dtype = _NARROW.get(array.dtype)
    if dtype is None:
        return array
    with np.errstate(over="ignore"):
        result = array.astype(dtype)
    if array.dtype.kind in "iu" and not np.array_equal(result, array):
        raise ArgumentOverflowError(
            f"a constant needs more than 32 bits, which {result.dtype} has: give it a dtype (types.Constant)"
        )
    return result
