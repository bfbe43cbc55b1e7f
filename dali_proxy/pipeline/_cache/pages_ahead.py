"""Allocate the pages of a block of memory before they are written."""

from __future__ import annotations

import ctypes
import mmap
import threading
import time

from dali_proxy.pipeline._arrays import Bytes
from dali_proxy.pipeline._concurrency.finalizers import THREAD_PREFIX
from dali_proxy.pipeline._concurrency.locks import Level, new_lock

_AHEAD = 128 << 20  # bytes
_FIRST = 16  # share of the memory that is allocated before it is known how much of it will be used: 1 / 16
# Bytes per call: other threads may wait for it when they allocate memory.
_STEP = 4 << 20
_POPULATE_WRITE = 23  # MADV_POPULATE_WRITE, since Linux 5.14
_libc = ctypes.CDLL(None)


class PagesAhead:
    """Lets a thread allocate the next pages of a block of memory, which is used from its start.

    The system zeroes a page when it is first used. For a whole image, this may take as long as to decode it.

    Attributes:
        done: end of what the thread has allocated, or is allocating.
        seconds: processor time that this has taken.
    """

    def __init__(self, memory: Bytes) -> None:
        self._memory = memory
        self.seconds = 0.0
        self._used = self.done = self._wanted = 0
        self._closed = False
        self._thread: threading.Thread | None = None
        self._lock = new_lock(Level.LEAF, "cache pages")
        self.use(0, memory.nbytes // _FIRST)

    def use(self, end: int, most: int) -> None:
        """Note that the memory up to `end` is in use, and that up to `most` will probably be used."""
        most = min(most, self._memory.nbytes)
        if self._wanted >= min(end + _AHEAD // 2, most):
            return
        with self._lock:
            self._used, self._wanted = end, min(end + _AHEAD, most)
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._work, name=f"{THREAD_PREFIX}cache-pages", daemon=True)
                self._thread.start()

    def wait(self) -> None:
        """Wait until the thread has allocated what is wanted."""
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()

    def close(self) -> None:
        """End the thread."""
        with self._lock:
            self._closed = True
        self.wait()

    def _work(self) -> None:
        address, begun = self._memory.ctypes.data, time.thread_time() - self.seconds
        while (step := self._begin_step()) is not None:
            begin, nbytes = step
            if _libc.madvise(ctypes.c_void_p(address + begin), ctypes.c_size_t(nbytes), _POPULATE_WRITE):
                with self._lock:  # an old system, or no memory: pages are allocated when they are written
                    self._closed = True
            self.seconds = time.thread_time() - begun

    def _begin_step(self) -> tuple[int, int] | None:
        """Return the begin and the size of the next pages; None if no more are wanted."""
        with self._lock:
            begin = max(self.done, self._used // _STEP * _STEP)
            nbytes = min(_STEP, self._wanted - begin) // mmap.PAGESIZE * mmap.PAGESIZE
            if self._closed or nbytes <= 0:
                self._thread = None
                return None
            self.done = begin + nbytes
            return begin, nbytes
