"""`SharedResources`: threads and a GPU that several executors share."""

from __future__ import annotations

from typing import Any

from dali_proxy.pipeline._cached_property import cached_property
from dali_proxy.pipeline._concurrency.finalizers import THREAD_PREFIX
from dali_proxy.pipeline._concurrency.thread_pool import ThreadPool
from dali_proxy.pipeline._executor.device import Device, open_device
from dali_proxy.pipeline._graph.graph import Graph
from dali_proxy.pipeline._operator_api.request import ExecutorConfig


class SharedResources:
    """Threads and a GPU that several executors share. Such executors run their batches on the calling threads.

    Args:
        num_threads: number of threads.
        pool: threads to use; None for own ones, which start when they are first needed.
        stream: CUDA stream for all batches; None for a new one.
    """

    def __init__(self, num_threads: int, pool: ThreadPool | None = None, stream: Any = None) -> None:
        self._num_threads = num_threads
        self._given_pool = pool
        self._stream = stream
        self._device: Device | None = None

    @cached_property
    def pool(self) -> ThreadPool:
        """The threads."""
        return self._given_pool or ThreadPool(self._num_threads, f"{THREAD_PREFIX}cpu")

    def device(self, graph: Graph, config: ExecutorConfig) -> Device:
        """Return the GPU, which the first graph that needs it opens.

        Raises:
            DeviceError: CuPy, the driver or the GPU is missing.
        """
        if self._device is None:
            self._device = open_device(graph, config, self._stream)
        return self._device

    def close(self) -> None:
        """End the threads that this object started, and free the GPU."""
        if self._device is not None:
            self._device.close()
        if self._given_pool is None and "pool" in vars(self):
            self.pool.close()
