"""Device memory for the JPEG engine, reused only when the GPU has finished with it."""

from __future__ import annotations

from typing import Any

from dali_proxy.pipeline._concurrency.locks import Level, new_lock
from dali_proxy.pipeline._cuda.errors import cuda_call, load_cupy
from dali_proxy.pipeline._cuda.reclaiming import reclaiming

_GROWTH = 1.25
_LEAST = 1 << 20


class EngineMemory:
    """Blocks of device memory that the JPEG engine writes. Any thread may call the methods.

    The engine writes on another stream than the kernels that read the previous images, and may overtake them. `take`
    therefore returns blocks whose last use has finished.

    Args:
        device_id: the CUDA device.
        limit: number of idle blocks from which on `take` waits for the oldest one instead of allocating another one.
    """

    def __init__(self, device_id: int, limit: int = 4) -> None:
        self._device_id = device_id
        self._limit = limit
        self._idle: list[tuple[Any, Any]] = []  # blocks, and the events after their last uses, oldest first
        self._closed = False
        self._lock = new_lock(Level.LEAF, "engine memory")

    def take(self, nbytes: int, stream: Any) -> Any:
        """Return a block of at least `nbytes`, a `cupy.cuda.MemoryPointer`, for the next work on a stream.

        No other work on the GPU uses it.
        """
        cupy = load_cupy()
        found = self._take_idle(nbytes)
        if found is not None:
            block, event = found
            with cuda_call("cudaEventSynchronize"):
                event.synchronize()
            if block.mem.size >= nbytes:
                return block
            del block
        with cuda_call("allocating device memory"), cupy.cuda.Device(self._device_id), stream:
            block = reclaiming(cupy.cuda.alloc)(max(_LEAST, int(nbytes * _GROWTH)))
            stream.synchronize()  # CuPy returns memory that earlier work on the stream may still use
        return block

    def give(self, block: Any, stream: Any) -> None:
        """Return a block after its last use was enqueued on a stream."""
        cupy = load_cupy()
        with cuda_call("cudaEventRecord"), cupy.cuda.Device(self._device_id):
            event = cupy.cuda.Event(block=True, disable_timing=True)
            event.record(stream)
        with self._lock:
            if not self._closed:
                self._idle.append((block, event))

    def close(self) -> None:
        """Drop idle blocks, and those that are returned later. Idempotent."""
        with self._lock:
            self._closed = True
            self._idle.clear()

    def _take_idle(self, nbytes: int) -> tuple[Any, Any] | None:
        """Remove and return an idle block: a large one that is free, else the oldest one if there are enough."""
        with self._lock:
            for position, (block, event) in enumerate(self._idle):
                if block.mem.size >= nbytes and event.done:
                    return self._idle.pop(position)
            return self._idle.pop(0) if len(self._idle) >= self._limit else None
