"""The servers of one `DALIServer` in a Ray cluster: starts and replaces them, and sends them requests for batches."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from dali_proxy._cluster.batch_pickle import loads
from dali_proxy._cluster.node_server import NodeServer, RemoteHost
from dali_proxy._cluster.ray_cluster import RayCluster
from dali_proxy._cluster.result_stream import Address, ResultReceiver
from dali_proxy._common.batch_reading import BatchRequest
from dali_proxy.errors import ServerClosedError, ServerDiedError, StaleReferenceError
from dali_proxy.pipeline._concurrency.finalizers import THREAD_PREFIX
from dali_proxy.pipeline._concurrency.locks import Level, new_rlock
from dali_proxy.pipeline._executor.available_memory import in_flight_bytes
from dali_proxy.pipeline._ipc.signals import deferred_signals, let_through
from dali_proxy.pipeline._listing import listed
from dali_proxy.pipeline._optional import optional_package
from dali_proxy.pipeline._ranks import current_ranks

_THREADS = 16  # calls that a server handles at once
_LOSSES = 3  # times that a batch may be lost with its server, and is repeated
_FAILED_STARTS = 3  # in sequence, after which no further server is started
_LOOK = 1.0  # seconds between two looks at the idle resources of the cluster
_SETTLE = 3.0  # seconds after a change in which Ray's report of idle resources may be old
_ENDING = 3.0  # seconds for an orderly end of the servers
_TURN = 0.05  # seconds between calls of signal handlers during waits

_GONE = (ServerClosedError, ServerDiedError, StaleReferenceError)

_log = logging.getLogger("dali_proxy")


class _Server:
    """A server that was requested from Ray.

    Attributes:
        actor: handle of the Ray actor.
        ready: whether it takes requests.
        load: number of its unfinished requests.
        pending: pickled batches whose buffers come directly and haven't come, by the number of the request.
        arrived: buffers that came before Ray's answer.
        is_trying: whether it has a batch that was lost with another server, and gets no other meanwhile. If it is lost,
            too, that batch is the likely cause.
    """

    def __init__(self, actor: Any) -> None:
        self.actor = actor
        self.ready = False
        self.load = 0
        self.pending: dict[int, tuple[PendingBatch, bytes]] = {}
        self.arrived: dict[int, list[Any]] = {}
        self.is_trying = False


class PendingBatch:
    """A batch that was requested from the pool.

    Attributes:
        request: the request.
        losses: number of times that it was lost with its server.
        error: reason why it won't be repeated any more; None while it may arrive.
    """

    def __init__(self, request: BatchRequest) -> None:
        self.request = request
        self.losses = 0
        self.error: Exception | None = None
        self._answer: Any = None
        self._dropped = False

    @property
    def done(self) -> bool:
        """Whether the batch has arrived or failed."""
        return self._answer is not None or self.error is not None

    @property
    def nbytes(self) -> int:
        """Size of the batch that has arrived."""
        return 0 if self._answer is None else sum(buffer.nbytes for buffer in self._answer[1])

    def result(self) -> Any:
        """Return the batch that has arrived, or raise its error. Call this only once."""
        if self.error is not None:
            raise self.error
        answer, self._answer = self._answer, None
        return loads(*answer)

    def answer(self, answer: Any) -> None:
        """Store the batch, unless it isn't needed any more. Ray's threads call this."""
        if not self._dropped:
            self._answer = answer

    def drop(self) -> None:
        """Forget the batch: its iterator has ended."""
        self._dropped, self._answer = True, None


class ServerPool:
    """The servers of one `DALIServer` in a Ray cluster. Thread-safe.

    Raises:
        ServerDiedError: no server could be started within `start_timeout`.
        BuildError: Ray isn't installed, or the pipeline can't run on the nodes.

    Attributes:
        pid: None: the servers are processes on other machines.
        in_flight_bytes: limit for the results of one loader that are in flight.
        name, member: names of the servers, and of one, for messages.
        lost: number of servers that were lost since the start.
    """

    pid = None
    name, member = "the servers in the cluster are", "server"

    def __init__(self, cluster: RayCluster, num_cpus: float, host: RemoteHost, pin_for: int | None = None) -> None:
        self.lost = 0
        self._cluster = cluster
        self.divide()
        self._needs = {"CPU": num_cpus, "GPU": cluster.num_gpus, **cluster.resources}
        self._ray = optional_package("ray", "DALIServer(cluster=...)", "ray")
        self._lock = new_rlock(Level.CLUSTER_SERVERS, "cluster servers")
        self._events: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._arrived = threading.Event()
        self._servers: list[_Server] = []
        self._waiting: deque[PendingBatch] = deque()  # no server was ready
        self._failure: Exception | None = None  # of the last start
        self._failed_starts = 0
        self._changed = self._had_server = time.monotonic()
        self._closed = threading.Event()
        self._ended_sessions: list[int] = []  # finalizers append
        self._turns = itertools.count()
        self._numbers = itertools.count()
        if not self._ray.is_initialized():
            self._ray.init(address=cluster.address)
        home = self._ray.get_runtime_context().get_node_id()
        self._host = self._ray.put(host._replace(home=home))
        self._receiver = ResultReceiver(pin_for)
        self._connects = True  # no direct connection has failed
        self._watcher: threading.Thread | None = None
        try:
            self._add(max(self._room(), 1) if cluster.servers is None else cluster.servers)
            while not self.ready:
                self.wait()
        except BaseException:
            self.stop("it couldn't start")
            raise
        if cluster.servers is None:
            self._watcher = threading.Thread(target=self._watch, name=f"{THREAD_PREFIX}cluster", daemon=True)
            self._watcher.start()

    def divide(self) -> None:
        """Divide the memory among the ranks of this machine, when an epoch begins."""
        self.in_flight_bytes = self._cluster.in_flight_bytes or in_flight_bytes()

    @property
    def alive(self) -> bool:
        """Whether the pool is open: lost servers are replaced."""
        return not self._closed.is_set() and bool(self._ray.is_initialized())

    @property
    def ready(self) -> int:
        """Number of servers that take requests."""
        return sum([server.ready for server in self._servers])

    def describe_exit(self, patience: float = 0.0) -> str:
        """Return how the servers ended; empty while the pool is open. `patience` isn't used."""
        return "" if self.alive else "its servers in the cluster were stopped"

    def put(self, data: bytes) -> list[Any]:
        """Store bytes in the cluster. The servers can get them while the result exists.

        A list, because Ray would replace an object in a request's attribute by its value.
        """
        return [self._ray.put(data)]

    def request(self, request: BatchRequest) -> PendingBatch:
        """Request a batch from the server with the fewest requests."""
        batch = PendingBatch(request)
        with self._lock:
            self._close_sessions()
            if self._waiting or not self._send(batch):
                self._waiting.append(batch)
        return batch

    def end_session(self, session: int) -> None:
        """Close a session at all servers, with the next request. Finalizers call this."""
        self._ended_sessions.append(session)

    @deferred_signals
    def wait(self) -> None:
        """Wait a moment for batches and for changes of the cluster, and handle them.

        Raises:
            ServerDiedError: for too long, there was no server.
        """
        if self._events.empty():
            let_through(self._arrived.wait, _TURN)
        self._arrived.clear()
        self.handle()

    def handle(self) -> None:
        """Handle the batches and the changes of the cluster that have come.

        Raises:
            ServerDiedError: for too long, there was no server.
        """
        with self._lock:
            while True:
                try:
                    event = self._events.get_nowait()
                except Empty:
                    break
                event()
            while self._waiting and self._send(self._waiting[0]):
                self._waiting.popleft()
            if self.ready:
                self._had_server = time.monotonic()
                return
            self._check_start()

    def statistics(self) -> list[dict[str, Any]]:
        """Return the counters of all servers that answer within a few seconds."""
        refs = [server.actor.statistics.remote() for server in self._servers if server.ready]
        done, _ = self._ray.wait(refs, num_returns=len(refs), timeout=_ENDING) if refs else ([], [])
        reports = []
        for ref in done:
            with suppress(self._ray.exceptions.RayError):
                reports.append(self._ray.get(ref))
        return reports

    def stop(self, reason: str) -> None:
        """Stop all servers."""
        if self._closed.is_set():
            return
        self._closed.set()
        if self._watcher is not None:
            self._watcher.join(_ENDING)
        servers, self._servers = self._servers, []
        self._receiver.close()
        if not servers or not self._ray.is_initialized():
            return
        with suppress(self._ray.exceptions.RayError):
            refs = [server.actor.stop.remote() for server in servers if server.ready]
            if refs:
                self._ray.wait(refs, num_returns=len(refs), timeout=_ENDING)
        for server in servers:
            self._kill(server)

    def _send(self, batch: PendingBatch) -> bool:
        """Send a request. Return False if there is no server for it now."""
        ready = [
            server
            for server in self._servers
            if server.ready and not server.is_trying and not (batch.losses and server.load)
        ]
        if not ready:
            return False
        first = next(self._turns) % len(ready)
        server = min(ready[first:] + ready[:first], key=lambda each: each.load)
        server.load += 1
        server.is_trying = batch.losses > 0
        number = next(self._numbers)
        ref = server.actor.make.remote(batch.request._replace(number=number))
        self._call(ref, lambda done: self._receive(server, batch, number, done))
        return True

    def _close_sessions(self) -> None:
        if self._ended_sessions:
            sessions, self._ended_sessions = tuple(self._ended_sessions), []
            for server in self._servers:
                if server.ready:
                    server.actor.close_sessions.remote(sessions)

    def _call(self, ref: Any, handle: Callable[[Future[Any]], None]) -> None:
        """Let `handle` run with the finished future, in `handle` of this object."""

        def finish(done: Future[Any]) -> None:  # Ray's thread must not wait
            self._note(lambda: handle(done))

        ref.future().add_done_callback(finish)

    def _receive(self, server: _Server, batch: PendingBatch, number: int, done: Future[Any]) -> None:
        server.load -= 1
        server.is_trying = False
        error = done.exception()
        if error is not None:
            self._fail(server, batch, self._cause(error))
            return
        data, buffers = done.result()
        if buffers is None:
            buffers = server.arrived.pop(number, None)
        if buffers is not None:
            batch.answer((data, buffers))
        elif server in self._servers:
            server.pending[number] = batch, data
        else:
            self._fail(server, batch, ServerDiedError("the connection to the server has ended"))

    def _receive_buffers(self, server: _Server, number: int, buffers: list[Any]) -> None:
        if number in server.pending:
            batch, data = server.pending.pop(number)
            batch.answer((data, buffers))
        else:
            server.arrived[number] = buffers

    def _fail(self, server: _Server, batch: PendingBatch, error: Exception) -> None:
        if not self._is_loss(error):
            batch.error = error
            return
        self._lose(server, error)
        batch.losses += 1
        if batch.losses > _LOSSES:
            batch.error = _lost_for_good(batch, error)
        else:
            self._waiting.append(batch)

    def _disconnect(self, server: _Server) -> None:
        """Handle the end of the connection to a server."""
        self._lose(server, ServerDiedError("the connection to the server has ended"))
        pending, server.pending = server.pending, {}
        for batch, _ in pending.values():
            self._fail(server, batch, ServerDiedError("the connection to the server has ended"))

    def _cause(self, error: BaseException) -> Exception:
        """Return the exception of a server, without Ray's wrapper."""
        cause = error.cause if isinstance(error, self._ray.exceptions.RayTaskError) else error
        return cause if isinstance(cause, Exception) else ServerDiedError(f"{type(cause).__name__}: {cause}")

    def _is_loss(self, error: Exception) -> bool:
        exceptions = self._ray.exceptions
        return isinstance(error, (*_GONE, exceptions.RayError)) and not isinstance(error, exceptions.RayTaskError)

    def _lose(self, server: _Server, error: Exception) -> None:
        if server not in self._servers or isinstance(error, self._ray.exceptions.ObjectLostError):
            return  # only the result is lost
        _log.warning("a server of the cluster is lost: %s", _first_line(error))
        self.lost += 1
        self._servers.remove(server)
        server.ready = False
        self._kill(server)
        if self._cluster.servers is not None or not self._servers:
            self._add(1)

    def _kill(self, server: _Server) -> None:
        with suppress(Exception):  # the actor is gone, or the connection to the cluster
            self._ray.kill(server.actor)

    def _add(self, count: int) -> None:
        actor = self._ray.remote(NodeServer).options(
            num_cpus=self._needs["CPU"],
            num_gpus=self._needs["GPU"],
            resources=dict(self._cluster.resources) or None,
            scheduling_strategy="SPREAD",  # and not the placement group of the caller
            max_concurrency=_THREADS,
        )
        for _ in range(count):
            server = _Server(actor.remote())
            self._servers.append(server)
            ref = server.actor.start.remote(self._host)
            self._call(ref, lambda done, server=server: self._begin(server, done))  # type: ignore[misc]
        self._changed = time.monotonic()

    def _begin(self, server: _Server, done: Future[Any]) -> None:
        error = done.exception()
        self._changed = time.monotonic()
        if error is None:
            server.ready = True
            self._failed_starts = 0
            if (address := done.result()) is not None:
                self._connect(server, address)
            return
        self._failure = self._cause(error)
        self._failed_starts += 1
        if server in self._servers:
            _log.warning("a server of the cluster couldn't start: %s", _first_line(self._failure))
            self._servers.remove(server)
            self._kill(server)
            if self._is_loss(self._failure) and self._failed_starts < _FAILED_STARTS:
                self._add(1)

    def _connect(self, server: _Server, address: Address) -> None:
        def receive(number: int, buffers: list[Any]) -> None:
            self._note(lambda: self._receive_buffers(server, number, buffers))

        if self._connects:  # else each attempt could make the loop wait
            self._connects = self._receiver.connect(
                address, receive, lambda: self._note(lambda: self._disconnect(server))
            )

    def _note(self, event: Callable[[], None]) -> None:
        """Let `handle` call a function. Other threads call this."""
        self._events.put(event)
        self._arrived.set()

    def _check_start(self) -> None:
        """Raise an error if there is no server, and none is to be expected."""
        if self._closed.is_set():
            return
        if not self._servers and self._failure is not None:
            raise self._failure
        timeout = self._cluster.start_timeout
        if time.monotonic() - self._had_server > timeout:
            needs = ", ".join(f"{value:g} {name}" for name, value in self._needs.items() if value)
            last = "" if self._failure is None else f"; last error: {_first_line(self._failure)}"
            raise ServerDiedError(
                f"no server could be started in the Ray cluster within {timeout:g} s: a node with {needs} to spare is "
                f"needed for each server (see RayCluster, and `ray status`){last}"
            )

    def _room(self) -> int:
        """Return for how many further servers the cluster has idle resources. The ranks of a run divide them."""
        idle, ranks = self._fitting(self._ray.available_resources()), current_ranks().world_size
        if ranks == 1:
            return idle
        # A rank that took everything would leave nothing for those that start later.
        share = max(self._fitting(self._ray.cluster_resources()) // ranks, 1)
        return max(min(idle, max(idle // ranks, 1), share - len(self._servers)), 0)

    def _fitting(self, resources: Mapping[str, float]) -> int:
        return int(min(resources.get(name, 0.0) // each for name, each in self._needs.items() if each))

    def _watch(self) -> None:
        while not self._closed.wait(_LOOK):
            looked = time.monotonic()
            try:
                room = self._room()
            except Exception:  # noqa: BLE001  # the cluster is gone: waiting threads get that error
                continue
            if room > 0:
                self._events.put(lambda room=room, looked=looked: self._use(room, looked))  # type: ignore[misc]

    def _use(self, room: int, looked: float) -> None:
        if looked - self._changed > _SETTLE and all(server.ready for server in self._servers):
            _log.info("starting %d more servers in the cluster", room)
            self._add(room)


def _lost_for_good(batch: PendingBatch, last: Exception) -> ServerDiedError:
    numbered = batch.request.numbered
    return ServerDiedError(
        f"batch {numbered.batch} of epoch {numbered.epoch} was lost {batch.losses} times with its server, and won't be "
        "tried again: one of its samples may crash the server. Its dataset indices: "
        f"{listed(numbered.indices if isinstance(numbered.indices, list | tuple) else [numbered.indices])}; last "
        f"error: {_first_line(last)}"
    )


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
