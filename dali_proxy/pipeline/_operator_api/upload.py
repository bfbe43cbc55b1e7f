"""Copies from host memory to device memory: one copy per batch, on the batch's stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._bulk.buffer_pool import buffer_size
from dali_proxy.pipeline._bulk.gather import MemoryRanges
from dali_proxy.pipeline._cuda.staging import pack_tables
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
    small = upload_small(batch, [data])
    if small is not None:
        return small[0]
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


def upload_small(batch: Batch, batches: Sequence[TensorListCPU]) -> list[TensorListGPU] | None:
    """Copy small batches to the GPU through pinned memory, in one copy; None if one isn't small.

    A batch is dense, or its samples follow one another; see `TensorListCPU.rows`.
    """
    if any(data.pinned or data.nbytes > _SMALL for data in batches):
        return None
    found = [(data.dense, None) if data.dense is not None else data.rows() for data in batches]
    packed = [each for each in found if each is not None]
    if len(packed) < len(found):
        return None
    memory, offsets = _send_arrays(batch, [array for array, _ in packed])
    outputs = []
    for data, (array, counts), offset in zip(batches, packed, offsets, strict=True):
        if counts is None:
            outputs.append(TensorListGPU.from_dense(_as_array(array, memory, offset), data.layout()))
            continue
        shapes = np.empty((len(counts), array.ndim), np.int64)
        shapes[:, 0], shapes[:, 1:] = counts, array.shape[1:]
        starts = memory.ptr + offset + (np.cumsum(counts) - counts) * (array.nbytes // max(1, len(array)))
        table = Samples.contiguous(starts, shapes, array.dtype)
        outputs.append(TensorListGPU.from_table(table, memory, memory.device_id, data.layout()))
    return outputs


def upload_array(batch: Batch, array: Array) -> Any:
    """Copy one small array to the GPU through pinned memory, asynchronously on the batch's stream."""
    memory, _ = _send_arrays(batch, [array])
    return _as_array(array, memory)


def _send_arrays(batch: Batch, arrays: Sequence[Array]) -> tuple[Any, list[int]]:
    """Copy small arrays to new device memory; return a pointer that owns it, and the offset of each array."""
    offsets, size = pack_tables(arrays)
    memory, host = _staging(batch, size)
    for array, offset in zip(arrays, offsets, strict=True):
        np.ndarray(array.shape, array.dtype, host, offset)[...] = array
    _copy(memory.ptr, host.ctypes.data, size, batch.stream)
    return memory, offsets


def _as_array(like: Array, memory: Any, offset: int = 0) -> Any:
    import cupy

    if offset:
        memory = cupy.cuda.MemoryPointer(memory.mem, int(memory.ptr) - int(memory.mem.ptr) + offset)
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
