"""Copies from host memory to device memory: one copy per batch, on the batch's stream."""

from __future__ import annotations

from typing import Any

import numpy as np

from dali_proxy.pipeline._bulk.buffer_pool import buffer_size
from dali_proxy.pipeline._bulk.gather import MemoryRanges
from dali_proxy.pipeline._kernels.samples import Samples, contiguous_strides
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU
from dali_proxy.pipeline.tensors.gpu import TensorListGPU

# Arrays of at most so many bytes are copied on the calling thread.
_SMALL = 1 << 16


def upload(batch: Batch, data: TensorListCPU) -> TensorListGPU:
    """Copy a batch to the GPU, asynchronously on the batch's stream.

    Memory that is registered with CUDA is copied directly, with one copy per contiguous range. Other memory is first
    gathered in pinned memory, on idle threads of the CPU stage, and then sent in one copy.
    """
    if not data.pinned and data.nbytes <= _SMALL:
        if data.dense is not None:
            return TensorListGPU.from_dense(upload_array(batch, data.dense), data.layout())
        packed = data.rows()
        if packed is not None:
            return _upload_rows(batch, *packed, data.layout())
    # Samples may be contiguous although the batch isn't: one number that is broadcast to all samples.
    if not (data.table().is_contiguous() if data.dense is None else data.dense.flags.c_contiguous):
        data = _contiguous(data)
    if data.dense is not None:
        return TensorListGPU(
            _as_array(data.dense, _send(batch, MemoryRanges.from_array(data.dense), data)), data.layout()
        )
    ranges, table = MemoryRanges.from_batch(data), data.table()
    memory = _send(batch, ranges, data)
    strides = contiguous_strides(table.shapes, table.dtype.itemsize)
    placed = Samples(memory.ptr + ranges.sample_offsets, table.shapes, strides, table.dtype)
    return TensorListGPU.from_table(placed, memory, memory.device_id, data.layout())


def upload_array(batch: Batch, array: Array) -> Any:
    """Copy one small array to the GPU through pinned memory, asynchronously on the batch's stream."""
    return _as_array(array, _send_array(batch, array))


def _upload_rows(batch: Batch, rows: Array, counts: Array, layout: str) -> TensorListGPU:
    """Copy small samples that follow one another; see `TensorListCPU.rows`."""
    memory = _send_array(batch, rows)
    shapes = np.empty((len(counts), rows.ndim), np.int64)
    shapes[:, 0], shapes[:, 1:] = counts, rows.shape[1:]
    starts = memory.ptr + (np.cumsum(counts) - counts) * (rows.nbytes // max(1, len(rows)))
    return TensorListGPU.from_table(Samples.contiguous(starts, shapes, rows.dtype), memory, memory.device_id, layout)


def _send_array(batch: Batch, array: Array) -> Any:
    """Copy a small array to new device memory, without gaps; return a pointer that owns it."""
    memory, host = _staging(batch, array.nbytes)
    np.ndarray(array.shape, array.dtype, host)[...] = array
    _copy(memory.ptr, host.ctypes.data, array.nbytes, batch.stream)
    return memory


def _as_array(like: Array, memory: Any) -> Any:
    import cupy

    return cupy.ndarray(like.shape, like.dtype, memory)


def _contiguous(data: TensorListCPU) -> TensorListCPU:
    if data.dense is not None:
        return TensorListCPU(np.ascontiguousarray(data.dense), data.layout())
    return TensorListCPU([np.ascontiguousarray(sample) for sample in data.samples], data.layout())


def _send(batch: Batch, ranges: MemoryRanges, data: TensorListCPU) -> Any:
    """Copy a batch to new device memory; return a pointer that owns it."""
    if data.pinned:
        import cupy

        memory = cupy.cuda.alloc(_room(ranges.nbytes))
        batch.keep_alive.append(data)
        for offset, start, nbytes in zip(
            ranges.offsets.tolist(), ranges.starts.tolist(), ranges.sizes.tolist(), strict=True
        ):
            _copy(memory.ptr + offset, start, nbytes, batch.stream)
        return memory
    memory, host = _staging(batch, ranges.nbytes)
    ranges.copy_to(host, batch.pool)
    _copy(memory.ptr, host.ctypes.data, ranges.nbytes, batch.stream)
    return memory


def _staging(batch: Batch, nbytes: int) -> tuple[Any, Array]:
    """Return new device memory, and bytes of pinned host memory that live until the batch is done."""
    import cupy

    size = _room(nbytes)
    pinned = cupy.cuda.alloc_pinned_memory(size)
    batch.keep_alive.append(pinned)
    return cupy.cuda.alloc(size), np.frombuffer(pinned, np.uint8, size)


def _room(nbytes: int) -> int:
    """Return one of few possible sizes, so that CuPy's pools can reuse memory of earlier batches."""
    return buffer_size(max(1, nbytes))


def _copy(target: int, source: int, nbytes: int, stream: Any) -> None:
    from cupy.cuda import runtime

    if nbytes:
        runtime.memcpyAsync(target, source, nbytes, runtime.memcpyHostToDevice, stream.ptr)
