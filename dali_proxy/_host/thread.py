"""A host on a thread of the calling process."""

from __future__ import annotations

import os
import threading

from dali_proxy._host.host import Host
from dali_proxy._host.options import HostOptions
from dali_proxy._transport.exchange import LocalExchange
from dali_proxy.errors import ProxyError
from dali_proxy.pipeline._concurrency.finalizers import THREAD_PREFIX
from dali_proxy.pipeline._definition.serializing import deserialize_for_host

_GPU_PATIENCE = 2.5  # seconds that the GPU may take when the host stops
_PATIENCE = 30.0  # seconds that a running batch may take when the host stops


class ThreadHost:
    """Runs a `Host` on a thread. `ProcessHost` has the same interface.

    Args:
        pipeline: the pipeline, from `serialize_for_host`.
        options: settings.

    Raises:
        BuildError: the pipeline can't run here.

    Attributes:
        pid: ID of this process.
        local: passes GPU results to the consumer: CUDA can't open an IPC handle in the process that exported it.
    """

    def __init__(self, pipeline: bytes, options: HostOptions) -> None:
        from dali_proxy.pipeline.tensors.torch_memory import (
            TorchMemory,  # a server in its own process doesn't import torch
        )

        self.pid = os.getpid()
        self.local = LocalExchange(TorchMemory())
        built = deserialize_for_host(pipeline)
        try:
            self._host = Host(built, options, self.local)
        except BaseException:
            built._internals.close()
            raise
        self._thread = threading.Thread(target=self._run, name=f"{THREAD_PREFIX}proxy-host", daemon=True)
        try:
            self._thread.start()
        except BaseException:  # the limit of threads is reached
            self._host.close()
            raise

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def describe_exit(self, patience: float = 0.0) -> str:
        """Return how the host ended; empty while it runs. `patience` isn't used."""
        return "" if self.alive else "its thread has ended"

    def stop(self, reason: str) -> None:
        """Stop the host in an orderly way."""
        self._host.stop(reason)
        self._thread.join(_GPU_PATIENCE)
        if self._thread.is_alive() and self._host.is_gpu_busy():
            raise ProxyError(f"the GPU didn't finish the server's work in {_GPU_PATIENCE:g} s; a kernel may never end")
        self._thread.join(_PATIENCE)
        if self._thread.is_alive():
            raise ProxyError(f"the server's thread didn't end in {_PATIENCE:g} s")

    def _run(self) -> None:
        try:
            self._host.run()
        finally:
            self._host.close()
