"""Create tensors and batches from the data of users."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from dali_proxy.pipeline._concurrency.interrupts import pass_on_interrupt
from dali_proxy.pipeline._definition.cpu_only import VARIABLE, cpu_is_requested
from dali_proxy.pipeline._dynamic.arrays import Array, Batch, Tensor, is_array, listed
from dali_proxy.pipeline._dynamic.devices import as_device
from dali_proxy.pipeline._dynamic.dtypes import DType, dtype, of_enum
from dali_proxy.pipeline._dynamic.values import Value, tracing
from dali_proxy.pipeline._external_source.data import to_sample
from dali_proxy.pipeline._graph.constants import narrow
from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError, InputError
from dali_proxy.pipeline.tensors.cpu import TensorCPU, TensorListCPU
from dali_proxy.pipeline.tensors.gpu import TensorGPU, TensorListGPU, as_device_array
from dali_proxy.pipeline.tensors.layout import check_layout

_Array = TypeVar("_Array", bound=Array)


def tensor(data: Any, dtype: Any = None, device: Any = None, layout: str | None = None, pad: bool = False) -> Tensor:
    """Copy data into a tensor.

    Args:
        data: an array or tensor of any library, numbers in nested lists, a member of an enumeration, a tensor or a
            batch.
        dtype: type of the elements; by default that of the data.
        device: device; by default that of the data.
        layout: names of the dimensions.
        pad: whether samples of a batch with different shapes are padded with zeros.

    Raises:
        ArgumentTypeError: the data can't be a tensor.
        RaggedError: the samples of a batch have different shapes, and `pad` isn't set.
    """
    return make_tensor(data, dtype, device, layout, True, pad)


def as_tensor(data: Any, dtype: Any = None, device: Any = None, layout: str | None = None, pad: bool = False) -> Tensor:
    """Return data as a tensor, without a copy if possible. Has the arguments of `tensor`."""
    return make_tensor(data, dtype, device, layout, False, pad)


def batch(tensors: Any, dtype: Any = None, device: Any = None, layout: str | None = None) -> Batch:
    """Copy samples into a batch.

    Args:
        tensors: a list of tensors, an array whose first dimension is the batch dimension, or a batch.
        dtype: type of the elements; by default that of the data. Required for an empty list.
        device: device; by default that of the data.
        layout: names of the dimensions of a sample.

    Raises:
        ArgumentTypeError: the data can't be a batch.
    """
    return make_batch(tensors, dtype, device, layout, True)


def as_batch(tensors: Any, dtype: Any = None, device: Any = None, layout: str | None = None) -> Batch:
    """Return samples as a batch, without a copy if possible. Has the arguments of `batch`."""
    return make_batch(tensors, dtype, device, layout, False)


def make_tensor(
    data: Any,
    wanted: Any = None,
    device: Any = None,
    layout: str | None = None,
    copy: bool = False,
    pad: bool = False,
) -> Tensor:
    wanted = None if wanted is None else dtype(wanted)
    target = as_device(device)
    if isinstance(data, Batch):
        made = _stack(data._call("pad") if pad else data)
    elif isinstance(data, Tensor):
        made = data
    else:
        made = Tensor.from_value(_value_of(data, layout, False))
    result = made._converted(wanted, target, layout)
    if copy and _shares(result, made) and (isinstance(data, Array) or not isinstance(data, list | tuple | int | float)):
        result = _copied(result)
    return result if result is not data else Tensor.from_value(_view(result))


def make_batch(data: Any, wanted: Any, device: Any, layout: str | None, copy: bool) -> Batch:
    wanted = None if wanted is None else dtype(wanted)
    target = as_device(device)
    if isinstance(data, Batch):
        made = data
    elif isinstance(data, Tensor):
        made = Batch.from_value(_value_of(data._sample, layout, True))
    elif isinstance(data, TensorListCPU | TensorListGPU) or hasattr(data, "ndim"):
        made = Batch.from_value(_value_of(data, layout, True))
    else:
        made = _from_samples(list(data), wanted, layout)
    result = made._converted(wanted, target, layout)
    if copy and _shares(result, made) and result.batch_size:
        result = _copied(result)
    return result if result is not data else Batch.from_value(_view(result))


def _from_samples(samples: list[Any], wanted: DType | None, layout: str | None) -> Batch:
    if not samples:
        if wanted is None:
            raise ArgumentValueError("Element type must be specified if the list is empty")
        empty = TensorListCPU([])
        empty._dtype = wanted.type_id  # type: ignore[assignment]
        return Batch.from_value(Value("cpu", empty))
    tensors = [
        each if isinstance(each, Tensor) else Tensor.from_value(_value_of(each, layout, False)) for each in samples
    ]
    first = tensors[0]
    if any(each._value.device != first._value.device for each in tensors):
        raise ArgumentValueError("the tensors of a batch must be on the same device: they are on CPU and GPU")
    if wanted is not None:
        tensors = [each._converted(wanted, None, None) for each in tensors]
    elif isinstance(samples[0], int | float | list | tuple):
        kind = first.dtype
        tensors = [each if each.dtype == kind else each._converted(kind, None, None) for each in tensors]
    arrays: list[Any] = [each._sample for each in tensors]
    names = {each.layout for each in tensors}
    if len(names) > 1 and layout is None:
        raise ArgumentValueError(f"the tensors of a batch must have the same layout: {sorted(map(str, names))}")
    chosen = layout if layout is not None else first.layout
    if first._value.device == "gpu":
        for each in arrays:
            if each.ready is not None:
                each.ready.synchronize()
        batch: TensorList = TensorListGPU([each.as_array() for each in arrays], chosen)
    else:
        batch = TensorListCPU([each.as_array() for each in arrays], chosen)
    value = Value(first._value.device, batch)
    value.enum = wanted if wanted is not None and wanted.kind is DType.Kind.enum else first._value.enum
    return Batch.from_value(value)


def _value_of(data: Any, layout: str | None, is_batch: bool) -> Value:
    """Return the value of data of other libraries.

    Raises:
        InputError: the data is on a GPU, but all devices are the CPU.
    """
    if cpu_is_requested() and (isinstance(data, TensorListGPU | TensorGPU) or _on_gpu(data)):
        raise InputError(f"{type(data).__name__} is on a GPU, but {VARIABLE} is cpu: pass a copy on the CPU")
    enum = of_enum(data)
    if isinstance(data, TensorListCPU | TensorListGPU):
        if not is_batch:
            data = data.as_tensor()
        else:
            return Value(
                "gpu" if isinstance(data, TensorListGPU) else "cpu",
                data if layout is None else data.with_layout(layout),
            )
    if isinstance(data, TensorCPU | TensorGPU):
        inner: str = data.layout()
        inner = inner[1:] if is_batch and inner[:1] == "N" else inner
        chosen: str | None = layout if layout is not None else inner
        array = data.as_array()
    elif _on_gpu(data):
        array, chosen = as_device_array(data), layout
    else:
        array, chosen = _host_array(data), layout
    if is_batch and not array.ndim:
        raise ArgumentValueError("a batch needs a batch dimension in front; the data is a single number")
    names = check_layout(chosen, array.ndim - is_batch, "Tensor")
    made = listed(array if is_batch else array[None], names, data)
    value = Value("gpu" if isinstance(made, TensorListGPU) else "cpu", made)
    value.enum = enum
    return value


def _host_array(data: Any) -> Any:
    if of_enum(data) is not None:
        return np.asarray(int(data), np.int32)
    if data is None:
        raise ArgumentTypeError("a tensor can't be created from None")
    if isinstance(data, list | tuple):
        if any(map(is_array, data)):
            data = [each.cpu().numpy() if isinstance(each, Tensor) else each for each in data]
        try:
            array = np.asarray(data)
        except ValueError as error:
            pass_on_interrupt(error)
            raise ArgumentValueError(f"the lists don't have the shape of a tensor: {error}") from error
        if not array.size:
            return array.astype(np.int32)
        array = narrow(array) if not any(hasattr(each, "dtype") for each in data) else array
        return to_sample(array, "a list")
    if type(data) in (bool, int, float):
        return narrow(np.asarray(data))
    return to_sample(data, "data")


def _on_gpu(data: Any) -> bool:
    if type(data).__module__.partition(".")[0] == "torch":
        return bool(getattr(data, "is_cuda", False))
    return hasattr(data, "__cuda_array_interface__")


def _view(array: Array) -> Value:
    """Return a value with the same data, so that each tensor of the user holds its own."""
    value = array._value
    if not value.known:
        return value
    return value.with_data(array._lend())


def _shares(result: Array, source: Array) -> bool:
    """Return whether an array has the memory of the array from which it was converted."""
    if not (result._value.known and source._value.known):
        return result is source
    return len(result._value.data) > 0 and _address(result) == _address(source)


def _address(array: Array) -> int:
    return int(array._value.data.table().pointers[0])


def _copied(array: _Array) -> _Array:
    """Return a copy of data that exists now, and of a pending result when it is computed."""
    if array._value.known and not tracing.active():
        return array._copied()
    result = array._call("copy")
    result._value.enum = array._value.enum
    return result


def _stack(batch: Batch) -> Tensor:
    """Return a batch as one tensor."""
    batch._check_uniform()
    data = batch._lend()
    array = data.as_array()
    layout = "N" + data.layout() if data.layout() else ""
    stacked = listed(array[None], layout, data)
    return Tensor.from_value(batch._value.with_data(stacked))
