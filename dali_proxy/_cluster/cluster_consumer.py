"""The fetching side of the servers in a cluster: their results have arrived together with the batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from dali_proxy._cluster.batch_pickle import FetchedTicket
from dali_proxy._cluster.server_pool import ServerPool
from dali_proxy._consumer.pending_requests import fresh
from dali_proxy._transport.protocol import LoopReport
from dali_proxy._worker.tickets import Ticket
from dali_proxy.errors import ProxyError, ServerClosedError, StaleReferenceError
from pipeline._operator_api.trace import Trace

__all__ = ["ClusterConsumer"]

_MEANS = frozenset({"seconds", "depth"})  # of the servers; other numbers are sums


class ClusterConsumer:
    """Has the interface of `ConsumerClient` for the servers in a cluster.

    Args:
        pool: the servers.
        devices: for each output of the pipeline, the GPU to copy it to, or None for the CPU.

    Attributes:
        pool: the servers.
    """

    def __init__(self, pool: ServerPool, devices: tuple[int | None, ...]) -> None:
        self.pool = pool
        self.waited = 0.0
        self.variant = 0
        self.refused: dict[int, str] = {}
        self._devices = devices

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

    def outputs(self, ticket: Ticket, patience: float | None = None) -> tuple[Any, ...]:
        """Return the outputs of a batch: the same objects in every call. `patience` isn't used.

        Raises:
            BatchError: the batch failed.
            StaleReferenceError: the batch belongs to another server.
        """
        if ticket.error is not None:
            raise fresh(ticket.error)
        if ticket.outputs is None:
            if not isinstance(ticket, FetchedTicket) or ticket.arrived is None:
                raise StaleReferenceError("the batch belongs to another server, or to an earlier start of the server")
            ticket.outputs = tuple(map(_on_device, ticket.arrived, self._devices))
            ticket.arrived = None
        return ticket.outputs

    def open_session(self, session: int) -> None:
        """Do nothing: a server opens a session with its first batch."""

    def close_session(self, session: int) -> None:
        """Close the session of an iterator that has ended. Finalizers may call this."""
        self.pool.end_session(session)

    def advance(self, session: int, batch: int, in_order: bool) -> None:
        """Do nothing: the loader requests batches early."""

    def place(self, variant: int) -> None:
        """Do nothing: the servers have one form of the pipeline."""

    def result_size(self, session: int) -> int:
        """Return 0: the loader measures the size of results itself."""
        return 0

    def depth(self, session: int) -> int:
        """Return the number of results that are sent before a thread requests them: all that the loader requests."""
        return 0

    def statistics(self, subject: str = "stats") -> dict[str, Any]:
        """Request the counters of all servers and return their sums; `seconds` is the mean.

        Raises:
            ProxyError: other reports are requested.
        """
        if subject != "stats":
            raise ProxyError("servers in a cluster don't record traces: trace a server on one machine")
        return _merged(self.pool.statistics())

    def report_loops(self, report: LoopReport) -> None:
        """Do nothing: monitors don't find servers in a cluster."""

    def trace(self, trace: Trace | None) -> None:
        """Do nothing: a trace isn't recorded."""

    def close(self) -> None:
        """Do nothing: the pool has the connections."""


def _on_device(value: Any, device: int | None) -> Any:
    if device is None:
        return value
    if isinstance(value, list):
        return [_on_device(sample, device) for sample in value]
    # The copy to pinned memory lets the GPU read it later, so that this thread continues.
    return value.pin_memory().to(torch.device("cuda", device), non_blocking=True)


def _merged(reports: list[dict[str, Any]]) -> dict[str, Any]:
    merged: dict[str, Any] = {"operators": {}}
    for report in reports:
        for name, value in report.items():
            if isinstance(value, Mapping):
                for operator, times in value.items():
                    merged[name][operator] = _sum(merged[name].get(operator, {}), times)
            else:
                merged[name] = _sum({name: merged[name]} if name in merged else {}, {name: value})[name]
    for name in _MEANS.intersection(merged):
        merged[name] = type(merged[name])(merged[name] / len(reports))
    return merged


def _sum(total: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Add the numbers of two mappings; keep the first of other values."""
    return {
        name: total[name] + value if name in total and isinstance(value, int | float) else total.get(name, value)
        for name, value in more.items()
    }
