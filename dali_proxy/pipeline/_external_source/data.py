"""Convert the data of users to batches: arrays of NumPy, torch and CuPy, DLPack, tensors and lists of these."""

from __future__ import annotations

from typing import Any

import numpy as np

from dali_proxy.pipeline._bulk.gather import gathered
from dali_proxy.pipeline._concurrency.interrupts import pass_on_interrupt
from dali_proxy.pipeline._external_source.advice import advice
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline.errors import InputError, PipelineError
from dali_proxy.pipeline.tensors.cpu import Array, TensorCPU, TensorListCPU
from dali_proxy.pipeline.tensors.dlpack import CUDA, as_host_array, opened
from dali_proxy.pipeline.tensors.gpu import TensorGPU, TensorListGPU, as_device_array
from dali_proxy.pipeline.tensors.layout import check_layout
from dali_proxy.pipeline.types import NO_TYPE, to_dali_type

_ARRAYS = {np.ndarray}
#: Dtypes of native byte order that batches support.
_DTYPES = frozenset(map(np.dtype, "?bBhHiIlLqQefd"))


def to_sample(value: Any, what: str) -> Array:
    """Return a sample on the CPU as a NumPy array, without a copy if possible.

    Args:
        value: an array, tensor, number, bytes or anything with ``__array__`` or ``__dlpack__``.
        what: start of error messages, such as "input 'images'".

    Raises:
        InputError: the value doesn't hold numbers (strings, None and objects, for example).
    """
    if hasattr(value, "detach") and hasattr(value, "device"):  # a torch tensor, which may require grad
        value = value.detach()
        if value.device.type != "cpu":
            raise InputError(f"{what}: a tensor on {value.device}; expected a tensor on the CPU")
    try:
        array = as_host_array(value)
    except Exception as error:
        pass_on_interrupt(error)
        raise InputError(f"{what}: {type(value).__name__} can't be read as an array: {error}") from error
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    try:
        to_dali_type(array.dtype)
    except PipelineError as error:
        raise InputError(f"{what}: {type(value).__name__} of {error}; {advice(value)}") from None
    return array


def to_batch(value: Any, layout: str | None, what: str) -> TensorList:
    """Return a batch: the first dimension of an array, or the items of a list, are its samples.

    Raises:
        InputError: the data isn't a batch.
    """
    if isinstance(value, TensorListCPU | TensorListGPU):
        return value if layout is None else value.with_layout(layout)
    if isinstance(value, TensorCPU | TensorGPU):
        inner = value.layout()[1:] if value.layout()[:1] == "N" else ""
        batch_type = TensorListCPU if isinstance(value, TensorCPU) else TensorListGPU
        return batch_type(value.as_array(), layout if layout is not None else inner)
    if isinstance(value, list | tuple):
        if not value:
            raise InputError(f"{what}: an empty batch")
        are_plain = set(map(type, value)) == _ARRAYS and value[0].dtype in _DTYPES
        if layout is None and isinstance(value[0], TensorCPU | TensorGPU):
            layout = value[0].layout()
        if not are_plain and _on_gpu(value[0]):
            return TensorListGPU([_device_array(item, what) for item in value], layout or "")
        try:
            alike = (
                TensorListCPU.from_arrays(list(value), layout or "") if are_plain else None
            )  # without a check of each
            if alike is not None:
                return alike
            return TensorListCPU([to_sample(item, what) for item in value], layout or "")
        except InputError as error:
            raise error if str(error).startswith(what) else type(error)(f"{what}: {error}") from None
    if _on_gpu(value):
        return TensorListGPU(_device_array(value, what), layout or "")
    array = to_sample(value, what)
    if array.ndim == 0 or len(array) == 0:
        raise InputError(f"{what}: a batch needs at least one sample and a batch dimension in front")
    return TensorListCPU(array, layout or "")


def declares_data(node: GraphNode) -> bool:
    """Return whether an `external_source` declares a dtype, a number of dimensions or a layout to check."""
    dtype, ndim, layout = (node.argument(name) for name in ("dtype", "ndim", "layout"))
    return dtype not in (None, NO_TYPE) or ndim is not None or bool(layout)


def check_batch(batch: TensorList, node: GraphNode, max_batch_size: int) -> TensorList:
    """Check a batch against the declaration of its `external_source`; return it with the declared layout.

    Raises:
        InputError: its size, dtype, number of dimensions or layout doesn't match.
    """
    what = f"input {node.name!r}"
    if len(batch) > max_batch_size:
        raise InputError(
            f"{what}: the batch has {len(batch)} samples, but the pipeline's batch_size is {max_batch_size}"
        )
    dtype, ndim, layout = (node.argument(name) for name in ("dtype", "ndim", "layout"))
    if dtype not in (None, NO_TYPE) and batch.dtype != dtype:
        raise InputError(f"{what}: the data is {batch.dtype!r}, but external_source declares dtype={dtype!r}")
    if ndim is not None and batch.ndim != ndim:
        raise InputError(f"{what}: the samples have {batch.ndim} dimensions, but external_source declares ndim={ndim}")
    if layout:
        if batch.layout() not in ("", layout):
            raise InputError(f"{what}: the layout is {batch.layout()!r}, but external_source declares {layout!r}")
        if not batch.layout():
            check_layout(layout, batch.ndim, what)
            return batch.with_layout(layout)
    return batch


def own_copy(batch: TensorList) -> TensorList:
    """Return a copy of a batch, so that the user may reuse the original memory."""
    if isinstance(batch, TensorListCPU):
        return gathered(batch)
    if batch.dense is not None:
        return TensorListGPU(batch.dense.copy(), batch.layout())
    return TensorListGPU([sample.copy() for sample in batch.samples], batch.layout())


def _device_array(value: Any, what: str) -> Any:
    try:
        return as_device_array(value)
    except Exception as error:
        pass_on_interrupt(error)
        raise InputError(f"{what}: {type(value).__name__} is on a GPU, but none can be used here: {error}") from error


def _on_gpu(value: Any) -> bool:
    if isinstance(value, TensorGPU):
        return True
    if hasattr(value, "detach") and hasattr(
        value, "device"
    ):  # a torch tensor; if it requires grad, it has no interface
        return bool(value.device.type == "cuda")
    if hasattr(value, "__cuda_array_interface__"):
        return True
    value = opened(value)
    return hasattr(value, "__dlpack_device__") and value.__dlpack_device__()[0] == CUDA
