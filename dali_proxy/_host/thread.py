"""A host on a thread of the calling process."""

from __future__ import annotations

import os
import threading

from dali_proxy._host.host import Host
from dali_proxy._host.options import HostOptions
from dali_proxy._transport.exchange import LocalExchange
from dali_proxy.errors import ProxyError
from pipeline._concurrency.finalizers import THREAD_PREFIX
from pipeline._definition.serializing import deserialize_for_host

__all__ = ["ThreadHost"]

_PATIENCE = 30.0  # seconds that a batch on its way may take when the host stops


class ThreadHost:
    """Runs a `Host` on a thread. `ProcessHost` has the same interface.

    Args:
        pipeline: the pipeline, as `serialize_for_host` returned it.
        options: how to run.

    Raises:
        BuildError: the pipeline can't run here.

    Attributes:
        pid: of this process.
        local: takes results on a GPU, which can't be shared with the process that made them.
    """

    def __init__(self, pipeline: bytes, options: HostOptions) -> None:
        self.pid = os.getpid()
        self.local = LocalExchange()
        made = deserialize_for_host(pipeline)
        try:
            self._host = Host(made, options, self.local)
        except BaseException:
            made._internals.close()
            raise
        self._thread = threading.Thread(target=self._run, name=f"{THREAD_PREFIX}proxy-host", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def how_it_ended(self, patience: float = 0.0) -> str:
        """Say how the host ended; empty while it runs. It is known at once."""
        return "" if self.alive else "its thread has ended"

    def stop(self, reason: str) -> None:
        """End it in order."""
        self._host.stop(reason)
        self._thread.join(_PATIENCE)
        if self._thread.is_alive():
            raise ProxyError(f"the server's thread didn't end in {_PATIENCE:g} s")

    def _run(self) -> None:
        try:
            self._host.run()
        finally:
            self._host.close()
