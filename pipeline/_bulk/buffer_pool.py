"""Reusable memory on the CPU: fresh pages cost as much to fill as the work that fills them."""

from __future__ import annotations

import threading
from collections import deque
from functools import partial
from typing import Any

import numpy as np

from pipeline._kernels.pinned import PinnedMemory
from pipeline._kernels.views import Lease, lent_array
from pipeline.tensors.cpu import Array

__all__ = ["BufferPool", "buffer_size"]

_SMALLEST = 1 << 16  # smaller arrays come from malloc, which reuses them by itself


class BufferPool:
    """Gives arrays over memory that returns to the pool when the array and all views of it are gone.

    Args:
        idle_limit: bytes of idle memory to keep at most.
        pin_for: a GPU that reads it: it is pinned where that is possible.

    Attributes:
        allocated: buffers made so far; constant in a steady state.
    """

    def __init__(self, idle_limit: int = 1 << 30, pin_for: int | None = None) -> None:
        self._pin_for = pin_for
        self._idle: dict[int, list[Array]] = {}
        # Filled by finalizers, which may run within any allocation of any thread: they must not take a lock.
        self._returned: deque[Array] = deque()
        self._idle_bytes = 0
        self._idle_limit = idle_limit
        self._lock = threading.Lock()
        self.allocated = 0

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Return an array with arbitrary contents."""
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        if nbytes < _SMALLEST:
            return np.empty(shape, dtype)
        memory = self._take(buffer_size(nbytes))
        lease = Lease(partial(self._returned.append, memory))
        return lent_array(memory, lease)[:nbytes].view(dtype).reshape(shape)

    def reserve(self, nbytes: int, count: int) -> None:
        """Make buffers for arrays of so many bytes, so that the first arrays cost no more than others."""
        size = buffer_size(nbytes)
        if nbytes < _SMALLEST:
            return
        for _ in range(min(count, self._idle_limit // size)):
            with self._lock:
                self.allocated += 1
            self._returned.append(np.ones(size, np.uint8))  # written to, so that its pages are there

    def _take(self, size: int) -> Array:
        with self._lock:
            self._sort_returned()
            idle = self._idle.get(size)
            if idle:
                self._idle_bytes -= size
                return idle.pop()
            self.allocated += 1
        memory = np.empty(size, np.uint8)
        pinned = None if self._pin_for is None else PinnedMemory.of(memory, self._pin_for)
        return memory if pinned is None else np.asarray(pinned)

    def _sort_returned(self) -> None:
        while self._returned:
            memory = self._returned.popleft()
            # The size that was used last comes last; beyond the limit, those that nobody wants any more go first.
            idle = self._idle[memory.nbytes] = self._idle.pop(memory.nbytes, [])
            idle.append(memory)
            self._idle_bytes += memory.nbytes
            while self._idle_bytes > self._idle_limit:
                oldest = next(iter(self._idle))
                if self._idle[oldest]:
                    self._idle[oldest].pop()
                    self._idle_bytes -= oldest
                else:
                    del self._idle[oldest]


def buffer_size(nbytes: int) -> int:
    """Return the size of the buffer for an array: there are two sizes for each power of two."""
    size = 1 << (nbytes - 1).bit_length()
    return size - size // 4 if size - nbytes > size // 4 else size
