"""Threads that take batches from stage to stage."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from pipeline._concurrency.finalizers import call_back
from pipeline._concurrency.locks import Level, new_lock

__all__ = ["Lane"]


class Lane:
    """A queue of work and the threads that do it, in order of arrival.

    Once it is closed, whoever puts work does it: batches that are elsewhere meanwhile come to their end, too. Work
    must not raise; where it does, the thread reports it and goes on.

    Args:
        name: of the threads.
        threads: how many.
    """

    def __init__(self, name: str, threads: int) -> None:
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._closed = False
        self._lock = new_lock(Level.LEAF, "lane")  # held to put, so that no work comes after the threads' end
        self._threads: list[threading.Thread] = []  # those that were started
        try:
            for index in range(threads):
                thread = threading.Thread(target=self._loop, name=f"{name}-{index}", daemon=True)
                thread.start()
                self._threads.append(thread)
        except BaseException:
            self.close()
            raise

    def put(self, work: Callable[[], None]) -> None:
        """Have a thread do it, or do it if there are none any more."""
        with self._lock:
            closed = self._closed
            if not closed:
                self._work.put(work)
        if closed:
            work()

    def close(self) -> None:
        """Have all work done, and end the threads."""
        with self._lock:
            self._closed = True
            for _ in self._threads:
                self._work.put(None)
        for thread in self._threads:
            thread.join()

    def _loop(self) -> None:
        while True:
            work = self._work.get()
            if work is None:
                return
            call_back(work)
            del work  # with the batch that it was for
