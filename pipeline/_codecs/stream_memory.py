"""Device memory that is allocated and freed in stream order, and kept for reuse."""

from __future__ import annotations

from typing import Any

from pipeline._codecs.stream_free_list import StreamFreeList
from pipeline._kernels.errors import cuda_call, load_cupy

__all__ = ["StreamMemory"]

_GROWTH = 1.25
_LEAST = 1 << 20


class StreamMemory:
    """Blocks of device memory, for work on streams. Any thread may call it.

    Later work on the same stream reuses a returned block; the order of the stream separates the uses. Allocations stop
    when the blocks have grown to the size of the data.

    Args:
        device_id: the CUDA device.
    """

    def __init__(self, device_id: int) -> None:
        self._device_id = device_id
        self._idle = StreamFreeList(device_id)

    def take(self, nbytes: int, stream: Any) -> Any:
        """Return a block of at least `nbytes`, a `cupy.cuda.MemoryPointer`, for work that is enqueued on a stream."""
        cupy = load_cupy()
        for block in self._idle.take(1, stream):
            if block.mem.size >= nbytes:
                return block
            del block  # returns it to CuPy's pool, in stream order
        with cuda_call("allocating device memory"), cupy.cuda.Device(self._device_id), stream:
            return cupy.cuda.alloc(max(_LEAST, int(nbytes * _GROWTH)))

    def give(self, block: Any, stream: Any, last: Any = None) -> None:
        """Return a block after its last use was enqueued.

        Args:
            block: result of `take`.
            stream: stream that was passed to `take`.
            last: stream of its last use, if that is another one.
        """
        self._idle.put([block], stream, last)

    def close(self) -> None:
        """Drop idle blocks, and those that are returned later. Idempotent."""
        self._idle.close()
