"""The resources of a running server."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dali_proxy._common.folders import remove_folder
from dali_proxy._common.signals import blocked_signal
from dali_proxy._host import ProcessHost, ThreadHost
from dali_proxy._pool.pool_process import PoolProcess
from dali_proxy._server.dashboard import Dashboard
from dali_proxy._transport.endpoint import Endpoint
from dali_proxy._worker.worker import close_worker_client
from dali_proxy.errors import ProxyError
from dali_proxy.pipeline._ipc.signals import deferred_signals

if TYPE_CHECKING:
    from dali_proxy._cluster.cluster_consumer import ClusterConsumer
    from dali_proxy._cluster.server_pool import ServerPool
    from dali_proxy._consumer.consumer import ConsumerClient


@dataclass
class Life:
    """Resources of a running server, which are released once, by `stop` or by the finalizer of the handle."""

    endpoint: Endpoint
    owner: int  # process that may start and stop the server; 0 for a pickled handle
    host: ProcessHost | ThreadHost | ServerPool | None = None
    dataset_workers: PoolProcess | None = None
    failure: str = ""  # error of the last start, if it failed
    last_end: ProxyError | None = None  # how the last connection ended; a process that isn't the owner knows only this
    dashboards: list[Dashboard] = field(default_factory=list)
    #: By process; a forked child inherits entries.
    consumers: dict[int, ConsumerClient | ClusterConsumer] = field(default_factory=dict)

    @property
    def directory(self) -> str:
        return os.path.dirname(self.endpoint.path)

    def disconnect(self) -> None:
        """Drop this process's connection, which has ended."""
        consumer = self.consumers.pop(os.getpid())
        try:
            consumer.check()
        except ProxyError as error:
            self.last_end = error.with_traceback(None)
        consumer.close()

    def stop(self, reason: str, *, restarts: bool = False) -> None:
        """Disconnect this process, and stop the server if this process owns it.

        Args:
            reason: reason for the clients.
            restarts: whether the server will start again, so that its pages stay.
        """
        # Signal handlers may raise; all steps must run nevertheless. SIGCHLD is blocked, so torch's handler doesn't
        # see the end of the server's process.
        with deferred_signals, blocked_signal(signal.SIGCHLD), ExitStack() as steps:
            if os.getpid() == self.owner:
                while self.dashboards and not restarts:
                    steps.callback(self.dashboards.pop().close)
                steps.callback(remove_folder, self.directory)
                workers, self.dataset_workers = self.dataset_workers, None
                if workers is not None:
                    steps.callback(workers.stop)  # after the host: else loops would get the error that they died
                host, self.host = self.host, None
                if host is not None:
                    steps.callback(host.stop, reason)
                steps.callback(close_worker_client, self.endpoint)
            consumer = self.consumers.pop(os.getpid(), None)
            if consumer is not None:
                steps.callback(consumer.close)
