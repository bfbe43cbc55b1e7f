"""A trace of a host: its batches, the pipeline's operators, and the workers that submitted the batches."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from dali_proxy.pipeline._operator_api.trace import Span, Trace, profiler
from dali_proxy.pipeline._rng import BatchKey

if TYPE_CHECKING:
    from dali_proxy._host.requests import Request
    from dali_proxy._transport.protocol import Submit

_AT_ONCE = 20_000  # spans of an answer; the messages that wait for a client are limited
_MOST = 125_000  # batches; each has up to four spans
_BATCHES = "batches"

QUEUED, EXECUTED, FINISHED = range(3)  # the stages of a batch
_STAGES = ("queued", "in the executor", "finished")


class _Batch(NamedTuple):
    """A batch from its worker to the loop. Its spans are made when they are read: that is too slow while batches run.

    Attributes:
        worker: process ID and name of the worker.
        key: identity of the batch.
        begun_ns: when the worker began to read its samples; 0 if that isn't known.
        sent_ns: when the worker submitted it.
        times: when it arrived, and when it left each stage; 0 if it didn't. In seconds of `time.perf_counter`.
    """

    worker: tuple[int, str]
    key: BatchKey
    begun_ns: int
    sent_ns: int
    times: list[float]

    def spans(self) -> tuple[list[Span], list[Span]]:
        """Return the activities of the worker and those of the server."""
        number, key = self.key.iteration, f"{self.key.epoch}.{self.key.iteration}"
        read = [Span("read samples", number, "dataset", self.begun_ns / 1e9, self.sent_ns / 1e9, key)]
        stages = []
        begin = self.times[0]
        for stage, end in zip(_STAGES, self.times[1:], strict=True):
            if end:
                stages.append(Span(stage, number, _BATCHES, begin, end, key))
                begin = end
        return read if self.begun_ns else [], stages


class HostTrace:
    """Records spans from its creation on.

    Attributes:
        trace: spans of the executor's threads.
    """

    def __init__(self) -> None:
        self.trace = Trace(profiler=profiler())
        self._batches: list[_Batch] = []
        self._dropped = 0

    def submitted(self, request: Request, message: Submit) -> None:
        """Record that a batch has arrived, and the worker's time for it."""
        if len(self._batches) >= _MOST:
            self._dropped += 1
            return
        worker = request.worker
        request.times = times = [time.perf_counter(), 0.0, 0.0, 0.0]
        self._batches.append(_Batch((worker.pid, worker.name), request.key, message.begun_ns, message.sent_ns, times))

    def ended(self, request: Request, stage: int) -> None:
        """Record that a batch leaves a stage: it entered the stage when it left the one before."""
        if request.times is not None:  # else it was submitted before this trace began
            request.times[1 + stage] = time.perf_counter()

    def take(self) -> dict[str, Any]:
        """Return spans and forget them: a few at a time, until `more` is false. Wait for work on the GPU."""
        batches = self._batches[: _AT_ONCE // (1 + len(_STAGES))]
        del self._batches[: len(batches)]
        by_process: defaultdict[tuple[int, str], list[Span]] = defaultdict(list)
        server = os.getpid(), "server"
        for batch in batches:
            read, stages = batch.spans()
            by_process[batch.worker] += read
            by_process[server] += stages
        by_process[server] += (threads := self.trace.take(_AT_ONCE))
        processes = [(pid, name, spans) for (pid, name), spans in by_process.items()]
        more = bool(self._batches) or len(threads) >= _AT_ONCE
        return {"processes": processes, "dropped": 0 if more else self.trace.dropped + self._dropped, "more": more}
