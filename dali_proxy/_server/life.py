"""The resources of a running server."""

from __future__ import annotations

import copy
import os
import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dali_proxy._common.folders import is_refused, remove_folder
from dali_proxy._common.signals import blocked_signal
from dali_proxy._host import AttachedHost, HostGroup, ProcessHost, ThreadHost
from dali_proxy._pool.pool_process import PoolProcess
from dali_proxy._server.dashboard import Dashboard
from dali_proxy._transport.endpoint import Endpoint
from dali_proxy._worker.worker import close_worker_client
from dali_proxy.errors import ProxyError, ServerClosedError, ServerDiedError
from dali_proxy.pipeline._ipc.signals import deferred_signals, let_through

if TYPE_CHECKING:
    from dali_proxy._cluster.cluster_consumer import ClusterConsumer
    from dali_proxy._cluster.server_pool import ServerPool
    from dali_proxy._consumer.consumer import ConsumerClient
    from dali_proxy._consumer.consumer_group import ConsumerGroup

_ENDING = 5.0  # seconds to wait until a server that has closed its sockets ends


@dataclass
class Life:
    """Resources of a running server, which are released once, by `stop` or by the finalizer of the handle."""

    endpoint: Endpoint
    owner: int  # process that may start and stop the server; 0 for a pickled handle
    host: AttachedHost | HostGroup | ProcessHost | ThreadHost | ServerPool | None = None
    dataset_workers: PoolProcess | None = None
    failure: str = ""  # error of the last start, if it failed
    last_end: ProxyError | None = None  # how the last connection ended; a process that isn't the owner knows only this
    dashboards: list[Dashboard] = field(default_factory=list)
    #: By process; a forked child inherits entries.
    consumers: dict[int, ConsumerClient | ConsumerGroup | ClusterConsumer] = field(default_factory=dict)

    @property
    def directory(self) -> str:
        return os.path.dirname(self.endpoint.path)

    @property
    def missing_socket(self) -> str:
        """The path of a socket of the server that doesn't exist; empty if all exist."""
        paths = [each.path for each in self.endpoint.of_processes]
        return next((path for path in paths if not os.path.exists(path)), "")

    def start_dataset_workers(self, modules: tuple[str, ...] = ()) -> None:
        """Start the process of dataset workers, whose number the server then changes. Don't wait for it.

        Args:
            modules: modules that the process imports before it forks workers.
        """
        with deferred_signals:
            self.dataset_workers = PoolProcess(self.directory)
            self.dataset_workers.begin_later(self.endpoint, modules)

    def connect(self, stages: Sequence[bytes | None], device_id: int | None) -> ConsumerClient | ConsumerGroup:
        """Connect this process to all processes of the server, to fetch results.

        Args:
            stages: device stages, as `ConsumerClient` takes them.
            device_id: GPU for the results of a host of another process, if no stage runs here.
        """
        from dali_proxy._consumer.consumer import ConsumerClient
        from dali_proxy._consumer.consumer_group import ConsumerGroup

        host = self.host if os.getpid() == self.owner else None
        clients: list[ConsumerClient] = []
        with ExitStack() as failure:
            for number, each in enumerate(self.endpoint.of_processes):
                own = host.hosts[number] if isinstance(host, HostGroup) else host
                if isinstance(own, AttachedHost | ProcessHost | ThreadHost):
                    client = ConsumerClient(each, own.describe_exit, own.local, stages)
                else:
                    client = ConsumerClient(each, device_stages=stages, device_id=None if any(stages) else device_id)
                failure.callback(client.close)
                clients.append(client)
            failure.pop_all()
        consumer = clients[0] if len(clients) == 1 else ConsumerGroup(self.endpoint, clients)
        self.consumers[os.getpid()], self.last_end = consumer, None
        return consumer

    def disconnect(self) -> None:
        """Drop this process's connection, which has ended."""
        consumer = self.consumers.pop(os.getpid())
        try:
            consumer.check()
        except ProxyError as error:
            self.last_end = error.with_traceback(None)
        consumer.close()

    def await_end(self) -> None:
        """Wait until a server of this process that is ending has ended: it closes its sockets first."""
        deadline, host = time.monotonic() + _ENDING, self.host if os.getpid() == self.owner else None
        while host is not None and host.alive and any(is_refused(each.path) for each in self.endpoint.of_processes):
            if time.monotonic() > deadline:
                self.failure = "its process was alive, but no longer listened"
                self.stop("it no longer listens", restarts=True)
                return
            let_through(time.sleep, 0.01)

    def end_error(self, restarts: bool) -> ProxyError:
        """Return the error to raise because the server isn't running.

        Args:
            restarts: whether loops start a server again that died.
        """
        owned, host = os.getpid() == self.owner, self.host
        if owned and host is not None:
            how = host.describe_exit(0.5) or (
                f"its socket {self.missing_socket} was removed while it ran, possibly by a program that cleans the "
                f"temporary folder"
            )
            hint = "" if restarts else '; with restart="on-failure", loops continue with a new one; else call start()'
            return ServerDiedError(f"the server is gone: {how}{hint}")
        if self.last_end is not None and not owned:
            return copy.copy(self.last_end)
        if self.failure:
            return ServerDiedError(f"the server is gone, and couldn't be started again: {self.failure}")
        return ServerClosedError("the server is not running: use it inside `with DALIServer(...)`, or call start()")

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
