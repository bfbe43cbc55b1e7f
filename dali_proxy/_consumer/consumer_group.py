"""The connections of a process to the processes of one server that share its batches."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from msgspec import structs

from dali_proxy._common.report_sums import summed
from dali_proxy._consumer.consumer import ConsumerClient
from dali_proxy._consumer.pending_requests import SentAhead
from dali_proxy._transport.endpoint import Endpoint
from dali_proxy._transport.protocol import LoopReport
from dali_proxy._worker.tickets import Ticket
from dali_proxy.pipeline._ipc.signals import deferred_signals
from dali_proxy.pipeline._operator_api.trace import Trace


class ConsumerGroup:
    """Has the interface of `ConsumerClient` for a server with several processes. Thread-safe.

    A ticket says which process has its batch. The first process deals the tasks of the dataset workers, and monitors
    read the counters of the loops there. The server is gone as soon as one of its processes is.

    Args:
        endpoint: address of the server.
        clients: the connections, by the numbers of the processes.

    Attributes:
        variant, computed: as for `ConsumerClient`; the server has one placement.
    """

    variant = 0
    computed: None = None

    def __init__(self, endpoint: Endpoint, clients: Sequence[ConsumerClient]) -> None:
        self._endpoint = endpoint
        self._clients = tuple(clients)
        self._first = self._clients[0]
        self._by_server = {client.server: client for client in self._clients}
        self.refused = self._first.refused
        self.read_batch, self.forget_read = self._first.read_batch, self._first.forget_read
        self.has_session, self.resize_pool = self._first.has_session, self._first.resize_pool

    def outputs(self, ticket: Ticket, patience: float | None = None) -> tuple[Any, ...]:
        """Wait for a batch and return its outputs; see `ConsumerClient.outputs`."""
        client = self._by_server.get(ticket.server, self._first)
        for other in self._clients:
            if other is not client:
                other.glance()
        return client.outputs(ticket, patience)

    @property
    def waited(self) -> float:
        """Seconds that threads have waited for results."""
        return sum([client.waited for client in self._clients])

    @property
    def dataset_workers(self) -> int:
        """Number of dataset workers, of a server that changes it."""
        return self._first.dataset_workers

    @property
    def ended(self) -> bool:
        """Whether a connection has ended, for any reason."""
        return any(client.ended for client in self._clients)

    def check(self) -> None:
        """Raise if a connection has ended; see `ConsumerClient.check`."""
        for client in self._clients:
            client.check()

    def open_session(self, session: int) -> ResultsOfAll:
        """Open the session of an iterator at all processes, and return its results."""
        return ResultsOfAll([client.open_session(session) for client in self._clients])

    def receive(self, seconds: float) -> None:
        """Wait until an answer of a dataset worker arrives, for some seconds at most, and handle what is there."""
        for client in self._clients[1:]:
            client.glance()
        self._first.receive(seconds)

    def advance(self, session: int, batch: int, in_order: bool) -> None:
        """Record that a thread is about to request a batch of a session; see `ConsumerClient.advance`."""
        for number in self._numbers():
            self._clients[number].advance(session, batch, in_order)

    def _numbers(self) -> set[int]:
        """Return the processes that run batches of this rank."""
        endpoint = self._endpoint
        return {endpoint.process_of(endpoint.rank, batch) for batch in range(endpoint.processes)}

    def place(self, variant: int, measured: bool) -> None:
        """Do nothing: all processes have one form of the pipeline."""

    def result_size(self, session: int) -> int:
        """Return the size of the last result of a session in the server's memory; 0 if there was none."""
        return max([client.result_size(session) for client in self._clients])

    def close_session(self, session: int) -> None:
        """Close the session of an iterator that has ended. Finalizers may call this."""
        for client in self._clients:
            client.close_session(session)

    def statistics(self, subject: str = "stats") -> dict[str, Any]:
        """Request a report of all processes and return the sums; see `StatsRequest`."""
        reports = [client.statistics(subject) for client in self._clients]
        if subject != "end trace":
            return summed(reports, here=True)
        return {
            "processes": [each for report in reports for each in report["processes"]],
            "dropped": sum(report["dropped"] for report in reports),
            "more": any(report["more"] for report in reports),
        }

    def report_loops(self, report: LoopReport) -> None:
        """Send the counters of this process's loops to all processes. Only the first one gets durations of stages."""
        self._first.report_loops(report)
        for client in self._clients[1:]:
            client.report_loops(structs.replace(report, latency=()))

    def trace(self, trace: Trace | None) -> None:
        """Record the device stages in a trace from now on; None to stop."""
        for client in self._clients:
            client.trace(trace)

    @deferred_signals
    def close(self) -> None:
        """Disconnect. Fetched tensors stay valid."""
        with ExitStack() as steps:  # all of them, even when one fails
            for client in self._clients:
                steps.callback(client.close)


class ResultsOfAll:
    """The results of a session from all processes; see `SentAhead`."""

    def __init__(self, results: Sequence[SentAhead]) -> None:
        self._results = tuple(results)

    @property
    def depth(self) -> int:
        """Number of batches beyond the current one that may be sent before a thread asks for them."""
        return max([each.depth for each in self._results])

    @property
    def nbytes(self) -> int:
        """Size of the last result in the memory of a process; 0 if there was none."""
        return max([each.nbytes for each in self._results])

    @property
    def on_gpu(self) -> bool:
        """Whether a part of it is on a GPU."""
        return any(each.on_gpu for each in self._results)
