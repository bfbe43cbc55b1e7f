"""Conversion between the tensors of a pipeline and those of torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
import torch.utils.dlpack

from dali_proxy.pipeline.errors import ArgumentMismatchError, ArgumentTypeError, DeviceError, FrameworkArgumentError
from dali_proxy.pipeline.tensors import TensorCPU, TensorGPU, TensorListCPU, TensorListGPU
from dali_proxy.pipeline.tensors.cpu import Array
from dali_proxy.pipeline.tensors.torch_memory import lent_tensors, owned_tensors
from dali_proxy.pipeline.types import DALIDataType

__all__ = ["feed_ndarray", "sample_tensors", "to_torch_tensor", "to_torch_type"]

TensorOrList: TypeAlias = TensorCPU | TensorGPU | TensorListCPU | TensorListGPU

#: The torch dtype for each data type of a pipeline.
to_torch_type: dict[DALIDataType, torch.dtype] = {
    DALIDataType.BOOL: torch.bool,
    DALIDataType.FLOAT: torch.float32,
    DALIDataType.FLOAT16: torch.float16,
    DALIDataType.FLOAT64: torch.float64,
    DALIDataType.INT8: torch.int8,
    DALIDataType.INT16: torch.int16,
    DALIDataType.INT32: torch.int32,
    DALIDataType.INT64: torch.int64,
    DALIDataType.UINT8: torch.uint8,
    DALIDataType.UINT16: torch.uint16,
    DALIDataType.UINT32: torch.uint32,
    DALIDataType.UINT64: torch.uint64,
}


def to_torch_tensor(tensor: TensorOrList | Any, copy: bool = True) -> torch.Tensor:
    """Convert a tensor of a pipeline to a torch tensor on the same device, with the same dtype and shape.

    The torch tensor stays valid and unchanged as long as it exists, however often the pipeline runs meanwhile. (NVIDIA
    DALI guarantees that only until the next run, without a copy.) On a GPU, it is memory of torch's caching allocator,
    so `record_stream` works. The current stream waits for the work that computes the data; the host doesn't wait.

    Args:
        tensor: a tensor, or a batch whose samples have one shape; tensors of NVIDIA DALI and other objects with DLPack
            are accepted, too.
        copy: whether to copy the data to new memory. Without a copy, both share their memory where that is possible:
            not on a GPU if CuPy has allocated the memory, not if it is read-only, such as that of a constant, and not
            if it isn't contiguous.

    Raises:
        ArgumentMismatchError: the samples of the batch differ in shape.
        ArgumentTypeError: `tensor` isn't a tensor.

    Example:
        >>> import numpy as np
        >>> to_torch_tensor(TensorCPU(np.arange(3, dtype=np.int32)), copy=False)
        tensor([0, 1, 2], dtype=torch.int32)
    """
    gpu = _gpu_batch(tensor)
    if gpu is None:
        shared = _shared(tensor)
        return shared.clone() if copy else shared
    if not copy:
        return _first(owned_tensors(gpu), tensor)
    with lent_tensors(gpu) as lent:
        return _first(lent, tensor).clone()


def feed_ndarray(dali_tensor: TensorOrList | Any, arr: torch.Tensor, cuda_stream: Any = None) -> torch.Tensor:
    """Copy a tensor of a pipeline into a torch tensor, and return the torch tensor.

    Args:
        dali_tensor: a tensor, or a batch whose samples have one shape.
        arr: the torch tensor, of the same shape and dtype, on any device and with any strides.
        cuda_stream: CUDA stream for the copy: a stream of torch or CuPy, or its handle as an int or a
            `ctypes.c_void_p`. The default is torch's current stream of the device. The copy waits for the work that
            computes the data. The host doesn't wait for the copy unless `arr` is on the CPU.

    Raises:
        FrameworkArgumentError: `arr` isn't a torch tensor, shape or dtype differ, or the samples of a batch differ in
            shape.

    Example:
        >>> import numpy as np
        >>> feed_ndarray(TensorCPU(np.arange(3, dtype=np.int32)), torch.zeros(3, dtype=torch.int32))
        tensor([0, 1, 2], dtype=torch.int32)
    """
    if not isinstance(arr, torch.Tensor):
        raise FrameworkArgumentError(f"feed_ndarray() copies into a torch.Tensor, not into {type(arr).__name__}")
    with _on_stream(cuda_stream, dali_tensor, arr) as stream, _source(dali_tensor) as source:
        if source.shape != arr.shape:
            raise FrameworkArgumentError(
                f"Shapes do not match: the tensor has shape {tuple(source.shape)}, `arr` {tuple(arr.shape)}"
            )
        if source.dtype != arr.dtype:
            raise FrameworkArgumentError(
                "The element type of DALI Tensor/TensorList doesn't match the element type of the target PyTorch "
                "Tensor: "
                f"{source.dtype} vs {arr.dtype}"
            )
        arr.detach().copy_(source, non_blocking=arr.is_cuda and source.is_cuda)
        if stream is not None and arr.is_cuda:
            arr.record_stream(stream)
    return arr


def sample_tensors(batch: TensorListCPU | TensorListGPU | Any) -> Sequence[torch.Tensor]:
    """Return the samples of a batch as torch tensors, without a copy where `to_torch_tensor` needs none.

    A batch with one shape becomes one tensor, whose first dimension is the batch dimension.
    """
    if isinstance(batch, TensorListGPU):
        owned: Any = owned_tensors(batch)  # one tensor is a sequence of its rows
        return owned  # type: ignore[no-any-return]
    return _shared(batch) if batch.is_dense_tensor() else [_shared(sample) for sample in batch]  # type: ignore[return-value]


def _shared(tensor: Any) -> torch.Tensor:
    """Convert a tensor on the CPU, a batch of one shape, or an object with DLPack; over the same memory if possible."""
    if hasattr(tensor, "is_dense_tensor"):
        _check_dense(tensor)
        tensor = tensor.as_tensor()
    if isinstance(tensor, TensorCPU):
        return _share_cpu(tensor.as_array())
    if not hasattr(tensor, "__dlpack__"):
        raise ArgumentTypeError(f"expected a tensor of a pipeline, not {type(tensor).__name__}")
    shared: torch.Tensor = torch.utils.dlpack.from_dlpack(tensor)
    return shared


def _share_cpu(array: Array) -> torch.Tensor:
    if not (array.flags.c_contiguous and array.flags.writeable):
        array = array.copy()
    tensor: torch.Tensor = torch.from_numpy(array)
    return tensor


def _check_dense(batch: Any) -> None:
    if not batch.is_dense_tensor():
        raise ArgumentMismatchError(
            f"the samples of the batch differ in shape, so they can't be one tensor: {batch.shape()[:8]}; "
            "take them one by one"
        )


def _gpu_batch(tensor: Any) -> TensorListGPU | None:
    """Return data on a GPU as a batch of one shape, whose only sample is `tensor` if that isn't a batch."""
    if isinstance(tensor, TensorListGPU):
        _check_dense(tensor)
        return tensor
    if not isinstance(tensor, TensorGPU):
        return None
    batch = TensorListGPU(tensor.as_array()[None], ready=tensor.ready)
    batch.owner, batch.stream, batch.lenders = tensor.owner, tensor.stream, tensor.lenders
    return batch


def _first(tensors: Any, tensor: Any) -> torch.Tensor:
    """Return the tensors of `_gpu_batch(tensor)` in the shape of `tensor`."""
    converted: torch.Tensor = tensors if isinstance(tensor, TensorListGPU) else tensors[0]
    return converted


@contextmanager
def _source(tensor: Any) -> Iterator[torch.Tensor]:
    """Yield a tensor over the memory of a pipeline's tensor, for a copy on the current stream."""
    gpu = _gpu_batch(tensor)
    if gpu is None:
        yield _shared(tensor)
        return
    with lent_tensors(gpu) as lent:
        yield _first(lent, tensor)


@contextmanager
def _on_stream(stream: Any, source: Any, arr: torch.Tensor) -> Iterator[torch.cuda.Stream | None]:
    """Make a stream torch's current stream, and yield it as a torch stream; None keeps the current stream."""
    if stream is None or not (arr.is_cuda or isinstance(source, TensorGPU | TensorListGPU)):
        yield None
        return
    if not isinstance(stream, torch.cuda.Stream):
        handle = getattr(stream, "ptr", getattr(stream, "value", stream))
        device = arr.device if arr.is_cuda else torch.device("cuda", source.device_id())
        try:
            stream = torch.cuda.ExternalStream(int(handle or 0), device=device)  # type: ignore[no-untyped-call]
        except TypeError as error:
            raise DeviceError(f"this isn't a CUDA stream: {stream!r}") from error
    with torch.cuda.stream(stream):
        yield stream
