"""Registration of the workers' shared memory with CUDA, in the background."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._concurrency.finalizers import THREAD_PREFIX

Memory = npt.NDArray[np.uint8]


class Pinner:
    """A thread that pins memory. Pinning allocates all pages, which takes as long as filling them.

    The thread starts with the first call of `pin`. Only one thread at a time may call `pin` and `close`.

    Args:
        register: pins memory and returns an object with ``__array_interface__``, or None if that failed. The memory
            stays pinned while arrays over the object live.
    """

    def __init__(self, register: Callable[[Memory], Any]) -> None:
        self._register = register
        self._waiting: queue.SimpleQueue[tuple[Memory, Callable[[Memory], None]] | None] = queue.SimpleQueue()
        self._closing = False
        self._thread: threading.Thread | None = None

    def pin(self, memory: Memory, on_pinned: Callable[[Memory], None]) -> None:
        """Pin memory in the background.

        Args:
            memory: memory to pin.
            on_pinned: called on the thread with an array over the same memory, which is pinned while arrays over that
                array live; not called if pinning failed.
        """
        if self._thread is None:
            thread = threading.Thread(target=self._work, name=f"{THREAD_PREFIX}pinning", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the limit of threads is reached
                return
            self._thread = thread
        self._waiting.put((memory, on_pinned))

    def close(self) -> None:
        """End the thread. Pending memory isn't pinned."""
        self._closing = True
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()

    def _work(self) -> None:
        while (entry := self._waiting.get()) is not None:
            if self._closing:
                continue
            memory, on_pinned = entry
            pinned = self._register(memory)
            if pinned is not None:
                on_pinned(np.asarray(pinned))
            del entry, memory, on_pinned, pinned  # hold no references while this waits
