"""Host memory to device memory: one copy for a whole batch, on the batch's stream."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.executor.batch import Batch
from pipeline.kernels.pinned import PinnedMemory
from pipeline.tensors.cpu import Array, TensorListCPU
from pipeline.tensors.gpu import TensorListGPU

__all__ = ["upload", "upload_array"]

_ALIGNMENT = 256  # bytes; every sample begins on a boundary that vector loads like


def upload(batch: Batch, data: TensorListCPU) -> TensorListGPU:
    """Copy a batch to the GPU by one asynchronous copy on the batch's stream.

    It is gathered in pinned memory first, unless it lies in such memory already.
    """
    if isinstance(data.owner, PinnedMemory) and data.owner.holds(data.table()):
        return _upload_in_place(batch, data)
    if data.dense is not None:
        return TensorListGPU(upload_array(batch, data.dense), data.layout())
    import cupy

    sizes = np.array([sample.nbytes for sample in data.samples], dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(-(-sizes // _ALIGNMENT) * _ALIGNMENT)])
    pinned = cupy.cuda.alloc_pinned_memory(max(1, int(starts[-1])))
    batch.keep_alive.append(pinned)
    host = np.frombuffer(pinned, np.uint8, int(starts[-1]))
    for start, sample in zip(starts, data.samples, strict=False):
        host[start : start + sample.nbytes].view(sample.dtype).reshape(sample.shape)[...] = sample
    device = cupy.empty(int(starts[-1]), cupy.uint8)
    device.set(host, stream=batch.stream)
    dtype = data.samples[0].dtype
    samples = [
        device[start : start + sample.nbytes].view(dtype).reshape(sample.shape)
        for start, sample in zip(starts.tolist(), data.samples, strict=False)
    ]
    return TensorListGPU(samples, data.layout())


def _upload_in_place(batch: Batch, data: TensorListCPU) -> TensorListGPU:
    import cupy

    table = data.table()
    begin = int(table.pointers.min())
    nbytes = int((table.pointers + table.sizes).max()) - begin
    device = cupy.cuda.alloc(max(1, nbytes))
    batch.keep_alive.append(data)
    runtime = cupy.cuda.runtime
    runtime.memcpyAsync(device.ptr, begin, nbytes, runtime.memcpyHostToDevice, batch.stream.ptr)
    if data.dense is not None:
        return TensorListGPU(cupy.ndarray(data.dense.shape, data.dense.dtype, device), data.layout())
    offsets = (table.pointers - begin).tolist()
    samples = [
        cupy.ndarray(tuple(shape), table.dtype, device + offset)
        for shape, offset in zip(table.shapes.tolist(), offsets, strict=True)
    ]
    return TensorListGPU(samples, data.layout())


def upload_array(batch: Batch, array: Array) -> Any:
    """Copy one array to the GPU through pinned memory, asynchronously on the batch's stream."""
    import cupy

    pinned = cupy.cuda.alloc_pinned_memory(max(1, array.nbytes))
    batch.keep_alive.append(pinned)
    host = np.frombuffer(pinned, array.dtype, array.size).reshape(array.shape)
    host[...] = array
    device = cupy.empty(array.shape, array.dtype)
    device.set(host, stream=batch.stream)
    return device
