"""Reusable memory on the CPU: page faults of fresh memory cost as much as the work that fills it.

It is on loan while arrays over it exist, like all memory that another object owns.
"""

from __future__ import annotations

import ctypes
import math
import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from pickle import PickleBuffer
from typing import Any

import numpy as np

from dali_proxy.pipeline._arrays import Bytes
from dali_proxy.pipeline._concurrency.locks import Level, new_lock
from dali_proxy.pipeline._cuda.pinned import PinnedMemory
from dali_proxy.pipeline.tensors.cpu import Array

_SMALLEST = 1 << 16  # bytes; malloc already reuses the memory of smaller arrays
_MOST_RESERVED = 1 << 30  # bytes
_FORGET = 0.999  # share of the peak that remains after each allocation
_SPARE = 1.25  # part of the peak that may be kept: less would free buffers that the next batches need again


class Lease:
    """Lease on memory. Everything that uses the memory holds it; it ends when the last holder is dropped.

    Args:
        on_end: callback without arguments, called once: when the last reference to the lease is gone, or by `end`. It
            runs in the thread that drops the last reference, so it must be quick and must not acquire a lock that
            a holder may hold. It isn't called at interpreter exit.

    Example:
        >>> ended = []
        >>> lease = Lease(lambda: ended.append(True))
        >>> holders = [lease, lease]
        >>> del lease, holders[0]
        >>> ended
        []
        >>> del holders[0]
        >>> ended
        [True]
    """

    def __init__(self, on_end: Callable[[], object]) -> None:
        self._finalizer = weakref.finalize(self, on_end)
        self._finalizer.atexit = False

    def end(self) -> None:
        """End the lease now. Idempotent."""
        self._finalizer()


def lent_array(memory: Bytes, owner: object) -> Bytes:
    """Return a writable array over `memory`. The array and its views keep `owner` alive.

    Args:
        memory: C-contiguous bytes on the host.
        owner: object that releases the memory when it is finalized, such as a `Lease`. The last view may be dropped in
            any thread and, by garbage collection, within any allocation, so the release must not wait for a lock.

    Example:
        >>> ended = []
        >>> view = lent_array(np.zeros(4, np.uint8), Lease(lambda: ended.append(True)))[1:].view()
        >>> ended
        []
        >>> del view
        >>> ended
        [True]
    """
    # NumPy would skip a base that is over a memoryview or over another array.
    buffer: Any = PickleBuffer(memory)  # type: ignore[arg-type]  # mypy supports buffers from Python 3.12 on
    if not memory.flags.writeable:
        buffer = (ctypes.c_uint8 * memory.nbytes).from_address(memory.ctypes.data)
    lent = _Lent(memory.nbytes, np.uint8, buffer)
    lent.lender = memory, owner
    return np.asarray(lent)


class _Lent(np.ndarray[Any, Any]):
    """Base of the arrays over lent memory, which keeps its owner."""

    __slots__ = ("lender",)

    lender: tuple[Bytes, object]


class BufferPool:
    """Allocates arrays whose memory returns to the pool when the array and all its views have been freed.

    Args:
        kept: bytes, idle and in use, of which none are freed. They are more while more memory is in use at times: large
            batches would otherwise allocate their memory anew, which costs more than their work.
        pin_for: GPU that reads the memory, which is pinned if possible.

    Attributes:
        allocated: number of buffers created so far; constant in a steady state.
    """

    def __init__(self, kept: int = 1 << 27, pin_for: int | None = None) -> None:
        self._pin_for = pin_for
        self._idle: dict[int, list[Array]] = {}
        # Filled by finalizers, which may run during any allocation on any thread, so they must not take a lock.
        self._returned: deque[Array] = deque()
        self._idle_bytes = 0
        self._kept = kept
        self._lent_bytes = 0
        self._peak = 0.0  # largest `_lent_bytes`, slowly forgotten
        self._lock = new_lock(Level.LEAF, "buffer pool")
        self.allocated = 0

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Return an uninitialized array."""
        memory, _ = self.memory(math.prod(shape) * dtype.itemsize)
        return memory.view(dtype).reshape(shape)

    def memory(self, nbytes: int) -> tuple[Array, bool]:
        """Return uninitialized bytes, and whether they are pinned."""
        if nbytes < _SMALLEST:
            return np.empty(nbytes, np.uint8), False
        memory = self._take(buffer_size(nbytes))
        lease = Lease(partial(self._returned.append, memory))
        return lent_array(memory, lease)[:nbytes], isinstance(memory.base, PinnedMemory)

    def reserve(self, nbytes: int, count: int) -> None:
        """Allocate `count` buffers for arrays of `nbytes`, so that the first arrays cost no more than later ones."""
        size = buffer_size(nbytes)
        if nbytes < _SMALLEST:
            return
        count = min(count, _MOST_RESERVED // size)
        self._peak = max(self._peak, count * size)
        for _ in range(count):
            with self._lock:
                self.allocated += 1
            self._returned.append(np.ones(size, np.uint8))  # written, so that its pages are allocated

    def _take(self, size: int) -> Array:
        with self._lock:
            self._sort_returned()
            # Sizes of batches vary. A buffer that is up to twice as large saves one of each size.
            fit = [each for each, buffers in self._idle.items() if buffers and size <= each <= 2 * size]
            idle = min(fit, default=0)
            self._lent_bytes += idle or size
            self._peak = max(self._lent_bytes, _FORGET * self._peak)
            if idle:
                self._idle_bytes -= idle
                return self._idle[idle].pop()
            self.allocated += 1
        memory = np.empty(size, np.uint8)
        pinned = None if self._pin_for is None else PinnedMemory.from_memory(memory, self._pin_for)
        return memory if pinned is None else np.asarray(pinned)

    def _sort_returned(self) -> None:
        while self._returned:
            memory = self._returned.popleft()
            self._lent_bytes = max(self._lent_bytes - memory.nbytes, 0)  # those of `reserve` weren't lent
            # The dictionary is in order of last use: beyond the limit, the least recently used sizes are freed first.
            idle = self._idle[memory.nbytes] = self._idle.pop(memory.nbytes, [])
            idle.append(memory)
            self._idle_bytes += memory.nbytes
            while self._idle_bytes and self._idle_bytes + self._lent_bytes > max(self._kept, _SPARE * self._peak):
                oldest = next(iter(self._idle))
                if self._idle[oldest]:
                    self._idle[oldest].pop()
                    self._idle_bytes -= oldest
                else:
                    del self._idle[oldest]


def buffer_size(nbytes: int) -> int:
    """Return the size of the buffer for an array: one of two sizes per power of two."""
    size = 1 << (nbytes - 1).bit_length()
    return size - size // 4 if size - nbytes > size // 4 else size
