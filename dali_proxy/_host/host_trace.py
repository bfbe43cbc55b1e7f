"""A trace of a host: its batches, the pipeline's operators, and the workers that submitted the batches."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from pipeline._operator_api.trace import Span, Trace, profiler

if TYPE_CHECKING:
    from dali_proxy._host.requests import Request
    from dali_proxy._transport.protocol import Submit

__all__ = ["HostTrace"]

_AT_ONCE = 20_000  # spans of an answer; the messages that wait for a client are limited
_BATCHES = "batches"


class HostTrace:
    """Records spans from its creation on.

    Attributes:
        trace: spans of the executor's threads and of the stages of each batch.
    """

    def __init__(self) -> None:
        self.trace = Trace(profiler=profiler())
        self._workers: dict[tuple[int, str], Trace] = {}

    def submitted(self, request: Request, message: Submit) -> None:
        """Record the worker's time for a batch that has arrived."""
        worker = request.worker
        known = self._workers.setdefault((worker.pid, worker.name), Trace())
        if message.begun_ns:
            begun, sent = message.begun_ns / 1e9, message.sent_ns / 1e9
            known.add("read samples", message.batch, begun, sent, request.key, "dataset")
        request.since = time.perf_counter()

    def ended(self, request: Request, stage: str) -> None:
        """Record that a batch leaves a stage: it entered the stage when it left the one before."""
        if request.since:  # else it was submitted before this trace began
            now = time.perf_counter()
            key = request.key
            self.trace.add(stage, key.iteration, request.since, now, key, _BATCHES)
            request.since = now

    def take(self) -> dict[str, Any]:
        """Return spans and forget them: a few at a time, until `more` is false. Wait for work on the GPU."""
        processes: list[tuple[int, str, list[Span]]] = []
        left = _AT_ONCE
        traces = {(os.getpid(), "server"): self.trace, **self._workers}
        for (pid, name), trace in traces.items():
            spans = trace.take(left)
            left -= len(spans)
            processes.append((pid, name, spans))
        dropped = sum(trace.dropped for trace in traces.values())
        return {"processes": processes, "dropped": dropped, "more": left <= 0}
