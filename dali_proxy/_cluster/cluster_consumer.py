"""The fetching side of the servers in a cluster: their results have arrived together with the batches."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any

from dali_proxy._cluster.batch_pickle import FetchedTicket
from dali_proxy._cluster.device_copies import DeviceCopies
from dali_proxy._cluster.server_pool import ServerPool
from dali_proxy._common.report_sums import summed
from dali_proxy._consumer.pending_requests import SentAhead, fresh
from dali_proxy._transport.protocol import LoopReport
from dali_proxy._worker.tickets import Ticket
from dali_proxy.errors import ProxyError, ServerClosedError, StaleReferenceError
from dali_proxy.pipeline._concurrency.locks import Level, new_rlock
from dali_proxy.pipeline._ipc.signals import deferred_signals
from dali_proxy.pipeline._operator_api.trace import Trace


class ClusterConsumer:
    """Has the interface of `ConsumerClient` for the servers in a cluster. Thread-safe.

    Args:
        pool: the servers.
        on_gpu: for each output of the pipeline, whether to copy it to the GPU.
        copies: copies to the GPU; None without outputs on it.
    """

    def __init__(self, pool: ServerPool, on_gpu: Sequence[bool], copies: DeviceCopies | None = None) -> None:
        self.pool = pool
        self.waited = 0.0
        self.variant = 0
        self.computed: None = None
        self.refused: dict[int, str] = {}
        self._on_gpu = on_gpu
        self._copies = copies
        self._taking = new_rlock(Level.CLUSTER_DELIVERY, "cluster delivery")

    @property
    def ended(self) -> bool:
        """Whether the servers were stopped."""
        return not self.pool.alive

    def check(self) -> None:
        """Raise if the servers were stopped.

        Raises:
            ServerClosedError: they were stopped.
        """
        if self.ended:
            raise ServerClosedError("the server is closed: its servers in the cluster were stopped")

    @deferred_signals
    def outputs(self, ticket: Ticket, patience: float | None = None) -> tuple[Any, ...]:
        """Return the outputs of a batch: the same objects in every call. `patience` isn't used.

        Raises:
            BatchError: the batch failed.
            StaleReferenceError: the batch belongs to another server.
        """
        if ticket.error is not None:
            raise fresh(ticket.error)
        with self._taking:  # threads that request the same batch get the same tensors
            if ticket.outputs is None:
                if not isinstance(ticket, FetchedTicket) or ticket.arrived is None:
                    raise StaleReferenceError(
                        "the batch belongs to another server, or to an earlier start of the server"
                    )
                ticket.outputs, ticket.arrived = self._delivered(ticket.arrived), None
            return ticket.outputs

    def open_session(self, session: int) -> SentAhead:
        """Return what is known of a session: a server opens it with its first batch.

        The loader requests all results itself, and measures their size.
        """
        return SentAhead(0)

    def close_session(self, session: int) -> None:
        """Close the session of an iterator that has ended. Finalizers may call this."""
        self.pool.end_session(session)

    def advance(self, session: int, batch: int, in_order: bool) -> None:
        """Do nothing: the loader requests batches early."""

    def place(self, variant: int, measured: bool) -> None:
        """Do nothing: the servers have one form of the pipeline."""

    def statistics(self, subject: str = "stats") -> dict[str, Any]:
        """Request the counters of all servers and return their sums; `seconds` is the mean.

        Raises:
            ProxyError: other reports are requested.
        """
        if subject != "stats":
            raise ProxyError("servers in a cluster don't record traces: trace a server on one machine")
        return summed(self.pool.statistics())

    def report_loops(self, report: LoopReport) -> None:
        """Do nothing: monitors don't find servers in a cluster."""

    def trace(self, trace: Trace | None) -> None:
        """Do nothing: a trace isn't recorded."""

    def close(self) -> None:
        """Wait for copies to the GPU. The pool has the connections."""
        if self._copies is not None:
            with self._taking:
                self._copies.close()

    def _delivered(self, arrived: tuple[Any, ...]) -> tuple[Any, ...]:
        if self._copies is None:
            return arrived
        copies = iter(self._copies.copy(list(compress(arrived, self._on_gpu))))
        return tuple(next(copies) if on_gpu else value for value, on_gpu in zip(arrived, self._on_gpu, strict=True))
