"""Threads that move batches from stage to stage."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextlib import suppress

from dali_proxy.pipeline._concurrency.finalizers import report
from dali_proxy.pipeline._concurrency.locks import Level, new_lock


class WorkQueue:
    """A queue of work, and the threads that execute it in order of arrival.

    After `close`, `put` executes work on the calling thread, so that batches in other stages still finish. Work must
    not raise; if it does, the thread reports the exception and continues.
    """

    def __init__(self, name: str, threads: int) -> None:
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._closed = False
        # Serializes `put` and `close`, so that no work arrives after the threads end.
        self._lock = new_lock(Level.LEAF, "work queue")
        self._threads: list[threading.Thread] = []  # only started threads
        self._abandoned: list[threading.Thread] = []
        self._name = name
        try:
            self._start(threads)
        except BaseException:
            self.close()
            raise

    def widen(self, threads: int) -> None:
        """Start threads until there are so many, or until the limit of threads is reached: those do the work, too.

        Only one thread at a time may call this.
        """
        with suppress(RuntimeError):
            self._start(threads)

    def _start(self, threads: int) -> None:
        for index in range(len(self._threads), threads):
            thread = threading.Thread(target=self._loop, name=f"{self._name}-{index}", daemon=True)
            with self._lock:
                if self._closed:
                    return
                thread.start()
                self._threads.append(thread)

    def abandon(self, thread: threading.Thread) -> None:
        """Let another thread take the place of one whose work may never end. If it ends, the thread ends, too."""
        with self._lock:
            self._threads = [each for each in self._threads if each is not thread]
            self._abandoned.append(thread)
        self.widen(len(self._threads) + 1)

    def put(self, work: Callable[[], None]) -> None:
        """Queue work for the threads; after `close`, execute it here."""
        with self._lock:
            closed = self._closed
            if not closed:
                self._work.put(work)
        if closed:
            work()

    def close(self) -> None:
        """Finish all queued work, and end the threads."""
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
            try:  # `call_back` would take longer
                work()
            except BaseException as error:  # noqa: BLE001  # the thread goes on
                report(work, error)
            del work  # an idle thread must not keep its batch
            if self._abandoned and threading.current_thread() in self._abandoned:
                return
