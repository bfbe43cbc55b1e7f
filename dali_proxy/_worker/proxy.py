"""The proxy: datasets call it to send samples to the server, as NumPy arrays, and it returns placeholders."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from dali_proxy._transport.endpoint import Endpoint, InputSpec
from dali_proxy._transport.fields import DTYPES
from dali_proxy._worker.placeholders import Placeholder, SampleRef, register_with_pytrees, register_with_torch
from dali_proxy._worker.worker import WorkerClient, process_of_batch, worker_client
from dali_proxy.errors import PlaceholderError, ProxyCallError, SampleTypeError
from dali_proxy.pipeline._concurrency.interrupts import pass_on_interrupt
from dali_proxy.pipeline._dynamic.structure import fill
from dali_proxy.pipeline._external_source.advice import advice
from dali_proxy.pipeline._remote.urls import join, path_in
from dali_proxy.pipeline.errors import ArgumentTypeError
from dali_proxy.pipeline.types import to_dali_type

_NAME = "sample_name"

#: Dtypes that pipelines support, in either byte order: samples are copied in native byte order.
_TAKEN = frozenset(each for dtype in DTYPES.values() for each in (dtype, dtype.newbyteorder()))

_HINTS: dict[type, str] = {
    dict: "pass each value to a separate input (keyword arguments)",
    type(None): "return a value for every sample, or don't call the proxy for this one",
}


class Proxy:
    """Sends samples to a server. Call `DALIServer.proxy` in a dataset, in place of a transform.

    Pass a single input by position or by name, and several inputs by name. The call copies each input to shared memory
    before it returns, so the dataset may reuse its buffers. It returns a `SampleRef`, or a tuple with one for each
    output if the pipeline has several. For a function that returns a dict, a dataclass or a nested structure, it
    returns the same structure. Return these from `__getitem__`.

    `sample_name` identifies the sample in errors, in addition to its dataset index: a file's path, for example. (If the
    pipeline has an input of this name, the argument is that input.)

    A proxy can be pickled, so datasets that hold it work with fork, spawn and forkserver.

    Raises:
        ProxyCallError: the number or the names of the inputs are wrong.
        SampleTypeError: an input isn't data that pipelines can read.
        ServerClosedError: the server isn't running.

    Example:
        >>> dataset = ImageDataset(folder, transform=server.proxy)  # doctest: +SKIP
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._clients: list[WorkerClient | None] = [None] * endpoint.processes
        self._outputs = range(endpoint.outputs)
        self._one_output = endpoint.outputs == 1 and endpoint.structure is None
        self._names = [spec.name for spec in endpoint.inputs]
        self._named = frozenset(self._names)
        self._only_input = endpoint.inputs[0] if len(endpoint.inputs) == 1 else None
        self._takes_name = all(spec.name != _NAME for spec in endpoint.inputs)
        parameter = inspect.Parameter
        kind = parameter.POSITIONAL_OR_KEYWORD if len(endpoint.inputs) == 1 else parameter.KEYWORD_ONLY
        self.__signature__ = inspect.Signature(
            [
                *[parameter(spec.name, kind, annotation=Any) for spec in endpoint.inputs if spec.name.isidentifier()],
                *([parameter(_NAME, parameter.KEYWORD_ONLY, default=None)] if self._takes_name else ()),
            ]
        )
        register_with_torch(endpoint.structure)
        register_with_pytrees()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = None
        if kwargs and self._takes_name and (name_argument := kwargs.pop(_NAME, None)) is not None:
            name = os.fsdecode(name_argument) if isinstance(name_argument, bytes) else str(name_argument)
        try:
            if self._only_input is not None and len(args) == 1 and not kwargs:
                arrays = [as_input_array(args[0], self._only_input)]
            else:
                arrays = list(map(as_input_array, self._bind(args, kwargs), self._endpoint.inputs))
        except (SampleTypeError, PlaceholderError) as error:
            if name is None:
                raise
            raise type(error)(f"{error} (sample name: {name})") from error.__cause__
        number = 0 if len(self._clients) == 1 else process_of_batch(self._endpoint)
        client = self._clients[number]
        sample = None if client is None else client.sample(arrays, name)
        while sample is None:  # the server was started again, or this is a forked child
            client = self._clients[number] = worker_client(self._endpoint.of_process(number))
            sample = client.sample(arrays, name)
        if self._one_output:
            return SampleRef(sample, 0)
        refs = tuple([SampleRef(sample, output) for output in self._outputs])
        return refs if self._endpoint.structure is None else fill(self._endpoint.structure, refs)

    def __repr__(self) -> str:
        return f"<dali_proxy proxy{self.__signature__}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Proxy, (self._endpoint,))

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        names = self._names
        if not args and kwargs.keys() == self._named:
            return [kwargs[name] for name in names]
        if len(names) == 1:
            if args:
                raise ProxyCallError(
                    f"the pipeline has one input, {names[0]!r}, but the proxy got {len(args) + len(kwargs)}"
                )
        elif args:
            got = len(args) + len(kwargs)
            raise ProxyCallError(
                f"the pipeline has {len(names)} inputs{f', but the proxy got {got}' * (got != len(names))}: pass them "
                f"by name, proxy({', '.join(f'{name}=...' for name in names)})"
            )
        unknown = [name for name in kwargs if name not in names]
        unused = [name for name in unknown if name in self._endpoint.unused]
        faults = {
            "declared, but no output depends on it": unused,
            "unknown": [name for name in unknown if name not in unused],
            "missing": [name for name in names if name not in kwargs],
        }
        wrong = [f"{what}: {', '.join(which)}" for what, which in faults.items() if which]
        raise ProxyCallError(f"the pipeline's inputs are {', '.join(names)}; {'; '.join(wrong)}")


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
