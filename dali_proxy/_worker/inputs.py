"""Converts the proxy's arguments to NumPy arrays, or raises an error at once that gives the reason."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from dali_proxy._transport.endpoint import InputSpec
from dali_proxy._transport.protocol import DTYPES
from dali_proxy._worker.placeholders import Placeholder
from dali_proxy.errors import PlaceholderError, SampleTypeError
from dali_proxy.pipeline._concurrency.interrupts import pass_on_interrupt
from dali_proxy.pipeline._external_source.advice import advice
from dali_proxy.pipeline._remote.urls import join, path_in
from dali_proxy.pipeline.errors import ArgumentTypeError
from dali_proxy.pipeline.types import to_dali_type

#: Dtypes that pipelines support, in either byte order: samples are copied in native byte order.
_TAKEN = frozenset(each for dtype in DTYPES.values() for each in (dtype, dtype.newbyteorder()))

_HINTS: dict[type, str] = {
    dict: "pass each value to a separate input (keyword arguments)",
    type(None): "return a value for every sample, or don't call the proxy for this one",
}


def as_input_array(value: Any, spec: InputSpec) -> npt.NDArray[Any]:
    """Return one input of one sample as a NumPy array, without a copy if possible.

    Args:
        value: a NumPy array of any strides, a torch tensor on the CPU, bytes (as uint8, 1-D), a number or a nested
            list of numbers, a PIL image, or any object that NumPy converts to a numeric array. For an input that is a
            path, also a string or a `pathlib.Path`.
        spec: specification of the input. A relative path becomes absolute.

    Raises:
        SampleTypeError: the value is another string, None, another object that isn't numeric, or data on a GPU; its
            dtype is unknown to pipelines; or it doesn't match the input's declaration.
    """
    name = spec.name
    kind: Any = type(value)
    if spec.is_path and issubclass(kind, str | os.PathLike):
        value, kind = os.fsencode(value), bytes
    array: npt.NDArray[Any] = value if kind is np.ndarray else _converter(kind)(value, name)
    if array.dtype not in _TAKEN:
        try:
            to_dali_type(array.dtype)
        except ArgumentTypeError as error:
            hint = next((hint for kind, hint in _HINTS.items() if isinstance(value, kind)), "") or advice(value)
            raise SampleTypeError(f"the input {name!r} got {_describe(value)}: {error}; {hint}") from None
    if spec.dtype is not None and array.dtype.name != spec.dtype:
        raise SampleTypeError(
            f"the input {name!r} got {_describe(value)}; its external_source declares dtype={spec.dtype}: "
            "convert the sample, or change the declaration"
        )
    if spec.ndim is not None and array.ndim != spec.ndim:
        raise SampleTypeError(
            f"the input {name!r} got {_describe(value)} of shape {array.shape}; its external_source declares "
            f"ndim={spec.ndim}: reshape the sample, or change the declaration"
        )
    return _absolute(array) if spec.is_path else array


def _absolute(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the absolute path of a file: the server may run in another directory than this process."""
    if array.ndim != 1 or array.dtype.itemsize != 1:
        return array  # the operator refuses it
    path = path_in(array)
    if path is None or path.startswith("/"):
        return array
    return np.frombuffer(os.fsencode(join(os.getcwd(), path)), np.uint8).view(array.dtype)


@lru_cache(maxsize=64)
def _converter(kind: type) -> Callable[[Any, str], npt.NDArray[Any]]:
    """Return the function that converts values of a type. Cached: the checks take longer than most conversions."""
    if issubclass(kind, Placeholder):
        return _refuse_placeholder
    torch = sys.modules.get("torch")  # a tensor's type exists only if it is imported
    if torch is not None and issubclass(kind, torch.Tensor):
        return _from_tensor
    if issubclass(kind, np.ndarray):
        return _unchanged
    if issubclass(kind, bytes | bytearray):
        return _from_bytes
    if issubclass(kind, np.generic):
        return _from_scalar
    return _from_object


def _refuse_placeholder(value: Any, name: str) -> NoReturn:
    raise PlaceholderError(f"the input {name!r} is {value!r}, not data: chain the operators in one pipeline instead")


def _unchanged(array: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    return array


def _from_bytes(value: bytes | bytearray, name: str) -> npt.NDArray[Any]:
    return np.frombuffer(value, np.uint8)


def _from_scalar(value: np.generic, name: str) -> npt.NDArray[Any]:
    return np.asarray(value)


def _from_tensor(tensor: Any, name: str) -> npt.NDArray[Any]:
    try:
        array: npt.NDArray[Any] = tensor.numpy()
        return array
    except (TypeError, RuntimeError):
        return _from_other_tensor(tensor, name)


def _from_other_tensor(tensor: Any, name: str) -> npt.NDArray[Any]:
    """Return the array of a tensor that torch doesn't convert directly: on a GPU, with a gradient, conjugated, ..."""
    if tensor.device.type != "cpu":
        raise SampleTypeError(
            f"the input {name!r} got {_describe(tensor)}; samples must be in host memory: call .cpu(), or better, "
            f"don't move the sample to the GPU in the dataset"
        )
    try:
        array: npt.NDArray[Any] = tensor.detach().resolve_conj().resolve_neg().numpy()
    except (TypeError, RuntimeError) as error:  # bfloat16, float8, sparse, quantized, nested
        pass_on_interrupt(error)
        raise SampleTypeError(
            f"the input {name!r} got {_describe(tensor)}, which pipelines don't accept ({error}); convert it, for "
            f"example with .float() or .to_dense()"
        ) from None
    return array


def _from_object(value: Any, name: str) -> npt.NDArray[Any]:
    try:
        if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
            return np.from_dlpack(value)
        return np.asarray(value)
    except PlaceholderError:
        raise
    except Exception as error:  # __array__ is foreign code, and ragged lists raise ValueError
        pass_on_interrupt(error)
        raise SampleTypeError(
            f"the input {name!r} got {_describe(value)}, not convertible to an array: {error}"
        ) from error


def _describe(value: Any) -> str:
    kind = type(value).__qualname__
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        text = repr(value)
        return f"a {kind} ({text if len(text) <= 60 else text[:57] + '...'})"
    device = getattr(value, "device", None)
    return f"{'an' if kind == 'ndarray' else 'a'} {kind} of {dtype}" + (
        f" on {device}" if device is not None and str(device) != "cpu" else ""
    )
