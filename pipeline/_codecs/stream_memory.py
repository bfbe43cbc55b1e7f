"""Device memory that is taken and given back in the order of a stream, and kept for the next to take."""

from __future__ import annotations

from typing import Any

from pipeline._codecs.stream_shelf import StreamShelf
from pipeline._kernels.errors import cuda_call, load_cupy

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
        self._idle = StreamShelf(device_id)

    def take(self, nbytes: int, stream: Any) -> Any:
        """Return a block of at least some size, a `cupy.cuda.MemoryPointer`, for work that is enqueued on a stream."""
        cupy = load_cupy()
        for block in self._idle.take(1, stream):
            if block.mem.size >= nbytes:
                return block
            del block  # to CuPy's pool, in the order of its stream
        with cuda_call("allocating device memory"), cupy.cuda.Device(self._device_id), stream:
            return cupy.cuda.alloc(max(_LEAST, int(nbytes * _GROWTH)))

    def give(self, block: Any, stream: Any, last: Any = None) -> None:
        """Take a block back, after its last use was enqueued.

        Args:
            block: what `take` returned.
            stream: for which it was taken.
            last: the stream of its last use, when that is another one.
        """
        self._idle.put([block], stream, last)

    def close(self) -> None:
        """Let go of what is idle, and of what is given back from now on. Idempotent."""
        self._idle.close()
