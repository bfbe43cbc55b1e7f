"""Threads that send requests to stores and wait for the answers."""

from __future__ import annotations

from collections.abc import Callable

from dali_proxy.pipeline._concurrency.finalizers import THREAD_PREFIX, Finalizer
from dali_proxy.pipeline._concurrency.locks import Level, new_lock
from dali_proxy.pipeline._concurrency.thread_pool import ThreadPool
from dali_proxy.pipeline._remote.request_limit import MOST_REQUESTS


class RequestThreads:
    """The threads for the requests of one operator, which its batches share: an earlier batch comes first.

    Their number follows from the requests of the batches that run at once. A new thread for each request would take as
    long as a tenth of the request. They end when this object is collected.
    """

    def __init__(self) -> None:
        self._lock = new_lock(Level.LEAF, "request threads")
        self._pool: ThreadPool | None = None
        self._wanted = 0  # requests of the batches that run

    def run(self, task: Callable[[int], None], count: int) -> list[tuple[int, BaseException]]:
        """Call ``task(index)`` for every index below `count`; see `ThreadPool.run`."""
        with self._lock:
            self._wanted += count
            pool = self._grown(min(self._wanted, MOST_REQUESTS))
        try:
            return pool.run(task, count)
        finally:
            with self._lock:
                self._wanted -= count

    def _grown(self, num_threads: int) -> ThreadPool:
        if self._pool is None:
            self._pool = ThreadPool(num_threads, f"{THREAD_PREFIX}remote")
            self._finalizer = Finalizer(self, self._pool.close)
        elif num_threads > self._pool.num_threads:
            self._pool.resize(num_threads)
        return self._pool
