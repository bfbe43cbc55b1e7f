"""Device memory that is taken and given back in the order of a stream, and kept for the next to take."""

from __future__ import annotations

import threading
from typing import Any

from pipeline.kernels.errors import cuda_call, load_cupy

__all__ = ["StreamMemory"]

_GROWTH = 1.25
_LEAST = 1 << 20


class StreamMemory:
    """Blocks of device memory, for work on streams. Any thread may call it.

    A block that is given back is taken again by later work on the same stream, whose order keeps users apart. Blocks
    grow to the size of the data; then nothing is allocated any more.

    Args:
        device_id: the CUDA device.
    """

    def __init__(self, device_id: int) -> None:
        self._device_id = device_id
        self._idle: dict[int, list[Any]] = {}  # by the stream's address: blocks, and events of their last uses
        self._lock = threading.Lock()

    def take(self, nbytes: int, stream: Any) -> Any:
        """Return a block of at least some size, a `cupy.cuda.MemoryPointer`, for work that is enqueued on a stream."""
        cupy = load_cupy()
        with self._lock:
            idle = self._idle.setdefault(int(stream.ptr), [])
            block, event = idle.pop() if idle else (None, None)
        if event is not None:
            with cuda_call("cudaStreamWaitEvent"):
                stream.wait_event(event)
        if block is None or block.mem.size < nbytes:
            block = None  # to CuPy's pool, in the order of its stream
            with cuda_call("allocating device memory"), cupy.cuda.Device(self._device_id), stream:
                block = cupy.cuda.alloc(max(_LEAST, int(nbytes * _GROWTH)))
        return block

    def give(self, block: Any, stream: Any, last: Any = None) -> None:
        """Take a block back, after its last use was enqueued.

        Args:
            block: what `take` returned.
            stream: for which it was taken.
            last: the stream of its last use, when that is another one.
        """
        event = None
        if last is not None and last.ptr != stream.ptr:
            cupy = load_cupy()
            with cuda_call("cudaEventRecord"), cupy.cuda.Device(self._device_id):
                event = cupy.cuda.Event(disable_timing=True)
                event.record(last)
        with self._lock:
            self._idle.setdefault(int(stream.ptr), []).append((block, event))

    def clear(self) -> None:
        """Let go of what is idle."""
        with self._lock:
            self._idle.clear()
