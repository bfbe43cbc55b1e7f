"""Uploads of tables to the device through pinned memory, which is reused after the kernels that read it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from dali_proxy.pipeline._arrays import Array, Bytes
from dali_proxy.pipeline._concurrency.locks import Level, new_lock
from dali_proxy.pipeline._cuda.errors import cuda_call, load_cupy

ALIGNMENT = 256  # bytes; _native.c has the same number
SMALLEST = 1 << 16


def pack_tables(tables: Sequence[Array]) -> tuple[list[int], int]:
    """Return the offset of each table in one buffer, and the buffer's size in bytes."""
    offsets, size = [], 0
    for table in tables:
        offsets.append(size)
        size += -(-table.nbytes // ALIGNMENT) * ALIGNMENT
    return offsets, size


def padded_size(tables: Sequence[Array]) -> int:
    """Return the size in bytes of a buffer with all tables, each aligned."""
    return sum([-(-table.nbytes // ALIGNMENT) * ALIGNMENT for table in tables])


class _StagingBuffer:
    """Pinned buffer, device buffer of the same size, and the event after which both are free."""

    def __init__(self, size: int) -> None:
        cupy = load_cupy()
        self.size = size
        self.host: Bytes = np.frombuffer(cupy.cuda.alloc_pinned_memory(size), np.uint8, size)
        self.address = int(self.host.ctypes.data)
        self.device = cupy.cuda.alloc(size)
        self.free = cupy.cuda.Event(disable_timing=True)
        #: Address of the device buffer and handle of the event.
        self.handles = int(self.device.ptr), int(self.free.ptr)


class StagingPool:
    """Buffers for the tables of launches in flight on one device.

    The pool reuses the least recently used buffer first. `_buffers` contains the buffers in which no launch is being
    prepared; the device may read a buffer until its event has completed. The pool stops allocating when there are as
    many buffers as launches in flight.

    Args:
        device_id: the CUDA device.
        limit: maximum number of buffers; `upload` waits for the oldest launch when all are in use.
    """

    def __init__(self, device_id: int, limit: int = 64) -> None:
        self._device_id = device_id
        self._limit = limit
        self._buffers: deque[_StagingBuffer] = deque()
        self._count = 0
        self._lock = new_lock(Level.LEAF, "staging pool")

    @contextmanager
    def upload(self, tables: Sequence[Array], stream: Any) -> Iterator[list[int]]:
        """Copy contiguous tables to the device in stream order, and yield device pointers for launches in the block."""
        cupy = load_cupy()
        offsets, size = pack_tables(tables)
        with cuda_call("staging a launch's tables"), self.buffer(size) as buffer:
            try:
                for offset, table in zip(offsets, tables, strict=True):
                    buffer.host[offset : offset + table.nbytes] = table.view(np.uint8).reshape(-1)
                cupy.cuda.runtime.memcpyAsync(
                    buffer.device.ptr, buffer.address, size, cupy.cuda.runtime.memcpyHostToDevice, stream.ptr
                )
                yield [buffer.device.ptr + offset for offset in offsets]
            finally:
                buffer.free.record(stream)

    @contextmanager
    def buffer(self, size: int) -> Iterator[_StagingBuffer]:
        """Lend a buffer of at least `size` bytes. The caller records its event after all work that uses it."""
        buffer = self.take(size)
        try:
            yield buffer
        finally:
            self.give_back(buffer)

    def give_back(self, buffer: _StagingBuffer) -> None:
        """Return a buffer, after its event was recorded behind all work that uses it."""
        with self._lock:
            self._buffers.append(buffer)

    def close(self) -> None:
        """Free the buffers after the device has finished with them."""
        with self._lock:
            buffers, self._buffers = list(self._buffers), deque()
            self._count -= len(buffers)
        for buffer in buffers:
            buffer.free.synchronize()

    def take(self, size: int) -> _StagingBuffer:
        """Return a buffer of at least `size` bytes, which `give_back` returns to the pool."""
        with self._lock:
            oldest = self._buffers[0] if self._buffers else None
            is_done = oldest is not None and oldest.free.done
            if is_done or (oldest is not None and self._count >= self._limit):
                self._buffers.popleft()
            else:
                oldest = None
                self._count += 1
        if oldest is not None:
            if not is_done:
                oldest.free.synchronize()
            if oldest.size >= size:
                return oldest
        with load_cupy().cuda.Device(self._device_id):
            return _StagingBuffer(max(SMALLEST, 1 << (size - 1).bit_length()))
