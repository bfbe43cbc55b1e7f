"""The argument `dtype` of operators, and its deprecated names."""

from __future__ import annotations

from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration.schema import Argument, Kind
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.types import FLOAT, DALIDataType, to_dali_type, to_numpy_type

#: Allowed dtypes of shapes.
INTEGER_LIKE = (
    DALIDataType.INT64,
    DALIDataType.INT32,
    DALIDataType.UINT32,
    DALIDataType.UINT64,
    DALIDataType.FLOAT,
    DALIDataType.FLOAT64,
)

IGNORED_IMAGE_TYPE = Argument(
    "image_type",
    Kind.IMAGE_TYPE,
    "Deprecated and ignored.",
    deprecated="The argument `image_type` is no longer used and will be removed in a future release.",
)


def dtype_arguments(doc: str, default: DALIDataType | None = None) -> tuple[Argument, ...]:
    """Return the argument `dtype` and the deprecated arguments of image operators."""
    return (
        Argument("dtype", Kind.DTYPE, doc, default),
        Argument("output_dtype", Kind.DTYPE, "Deprecated name of `dtype`.", replaced_by="dtype"),
        IGNORED_IMAGE_TYPE,
    )


def output_dtype(node: GraphNode, allowed: tuple[DALIDataType, ...] = ()) -> np.dtype[Any] | None:
    """Return the dtype that the user chose, or the default; None for the dtype of the input.

    Raises:
        ArgumentValueError: the dtype isn't allowed, if only some are.
    """
    wanted = node.argument("dtype")
    return None if wanted is None else check_dtype(wanted, allowed) if allowed else to_numpy_type(wanted)


def check_dtype(dtype: DALIDataType, allowed: tuple[DALIDataType, ...]) -> np.dtype[Any]:
    """Return the NumPy dtype of an allowed dtype.

    Raises:
        ArgumentValueError: the dtype isn't allowed.
    """
    if dtype not in allowed:
        names = ", ".join(entry.name for entry in allowed)
        raise ArgumentValueError(f"argument 'dtype' must be one of {names}, not {dtype!r}")
    return to_numpy_type(dtype)


def check_samples(dtype: np.dtype[Any], allowed: tuple[DALIDataType, ...]) -> None:
    """Check the dtype of an input.

    Raises:
        ArgumentValueError: the dtype isn't allowed.
    """
    found = to_dali_type(dtype)
    if found not in allowed:
        names = ", ".join(entry.name for entry in allowed)
        raise ArgumentValueError(
            f"Unsupported input type: {_name(found)}; the samples must be one of {names}, not {found.name}; use fn.cast"
        )


def _name(dtype: DALIDataType) -> str:
    """Return DALI's name of a dtype in its messages."""
    return {"FLOAT64": "double"}.get(dtype.name, dtype.name.lower())


def own_or_float(node: GraphNode, source: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the output: the input's, or FLOAT if the argument `dtype` says so.

    Raises:
        ArgumentValueError: The argument is another dtype, or the samples are BOOL.
    """
    dtype = node.argument("dtype")
    if source == np.bool_:
        raise ArgumentValueError("Unsupported data type: bool; samples of BOOL can't be filtered; use fn.cast")
    if dtype is None or dtype == FLOAT:
        return source if dtype is None else np.dtype(np.float32)
    if to_numpy_type(dtype) != source:
        raise ArgumentValueError(f"argument 'dtype' must be FLOAT or the input's dtype, {source}, not {dtype!r}")
    return source
