"""The host's answers to requests for reports."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any

from dali_proxy._host.clients import Consumer, Monitor
from dali_proxy._host.host_trace import HostTrace
from dali_proxy._host.machine import MachineUse
from dali_proxy._host.requests import Request
from dali_proxy._host.runner import HostRunner
from dali_proxy._host.variant import Variant
from dali_proxy._transport.protocol import LoopReport, Stats, StatsRequest
from dali_proxy.pipeline._cache.value_cache import ValueCache, total_report
from dali_proxy.pipeline._external_source.parallel.launch import worker_pids
from dali_proxy.pipeline._ipc.errors import ProtocolError
from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline._operator_api.trace import profiler_trace
from dali_proxy.pipeline._operators.decoding.image_warnings import damaged_images
from dali_proxy.pipeline._remote.totals import remote_totals
from dali_proxy.pipeline._video.video_pool import total_counters

_MOST_WAITING = 64  # requests for samples
# Counters of the loops of a process that the controller in another process needs.
_OF_OTHERS = ("loop_batches", "training", "worker_wait", "result_wait", "reading", "processor")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Reports:
    """Answers `StatsRequest`s, on the host's thread.

    Args:
        runner: handles the batches.
        variants: returns all variants of the pipeline.
        call_soon: schedules a function on the host's thread.
        clients: returns all connected clients.
        cache: has decoded samples; None for no cache.
        siblings: IDs of the other processes of the server.
    """

    def __init__(
        self,
        runner: HostRunner,
        variants: Callable[[], Iterable[Variant]],
        call_soon: Callable[[Callable[[], None]], None],
        clients: Callable[[], Iterable[object]],
        cache: ValueCache | None = None,
        siblings: Collection[int] = (),
    ) -> None:
        self._cache, self._siblings = cache, siblings
        self._runner = runner
        self._clients = clients
        self._machine = MachineUse()
        self._variants = variants
        self._call_soon = call_soon
        self._waiting: deque[tuple[Consumer | Monitor, int]] = deque()  # requests for samples
        self._processor_time = 0.0
        self._loops: dict[Consumer, LoopReport] = {}
        self._ended: HostTrace | None = None
        self._tracer: Consumer | None = None

    def begin(self) -> None:
        """Record that the host's thread begins to serve."""
        self._processor_time = time.thread_time()

    def answer(self, client: Consumer | Monitor, message: StatsRequest) -> None:
        """Answer a request.

        Raises:
            ProtocolError: the client may not ask for that.
        """
        if message.subject == "samples":
            if len(self._waiting) >= _MOST_WAITING:
                self._waiting.popleft()
            self._waiting.append((client, message.token))
            self._runner.on_outputs = self._draw
            return
        if message.subject == "stats":
            report = self.stats()
            report["ranks"] = self._ranks(client)
            report["others"] = {
                str(consumer.pid): {name: getattr(loops, name) for name in _OF_OTHERS}
                for consumer, loops in self._loops.items()
                if consumer is not client and loops.looping
            }
            if not isinstance(client, Consumer):
                report["loops"] = [_fields(each) for each in self._loops.values()]
                report["host_id"] = id(self)  # jobs that share a host have a socket each
        elif message.subject == "graph":
            report = self._runner.variant.describe()
        elif message.subject == "trace" and isinstance(client, Consumer):
            report = self._trace(client)
        elif message.subject == "end trace" and isinstance(client, Consumer):
            report = self._end_trace()
        else:
            raise ProtocolError(f"a {type(client).__name__.lower()} asked for {message.subject!r:.40}")
        client.send(Stats(message.token, json.dumps(report)))

    def stats(self) -> dict[str, Any]:
        """Return all counters of the host."""
        report = self._runner.report(times for each in self._variants() for times in each.operators())
        self._measure(reports=False)
        return {
            **report,
            "host": time.thread_time() - self._processor_time,
            "pid": os.getpid(),
            "consumers": sum(isinstance(client, Consumer) for client in self._clients()),
            "memory": _resident_bytes(),
            "threads": self._runner.variant.executor.num_threads,
            **total_report([*([] if self._cache is None else [self._cache]), *self._runner.variant.executor.caches]),
            "cacheable_bytes": self._runner.variant.executor.value_sizes.mean,
            **self._machine.report(),
            **total_counters(),
            "damaged": damaged_images(),
            **remote_totals(),
            "load": os.getloadavg()[0] / (os.cpu_count() or 1),
        }

    def _ranks(self, client: Consumer | Monitor) -> list[tuple[int | None, dict[str, Any]]]:
        """Return the durations of stages for each process with loops: its rank, and the durations by stage.

        For the client itself, which knows its rank and its loops, it is None, and the stages of this process.
        """
        ranks: list[tuple[int | None, dict[str, Any]]] = []
        for consumer in self._clients():
            if isinstance(consumer, Consumer):
                here = {stage: each.counts() for stage, each in consumer.latency.items()}
                if consumer is client:
                    ranks.append((None, here))
                elif (loops := self._loops.get(consumer)) is not None:
                    ranks.append((loops.rank, {**here, **{stage: dict(counts) for stage, counts in loops.latency}}))
        return ranks

    def note_loops(self, consumer: Consumer, message: LoopReport) -> None:
        """Store the counters of a consumer's loops."""
        self._loops[consumer] = message
        self._measure(reports=True)

    def _measure(self, reports: bool) -> None:
        """Measure who uses the cores."""
        training = {client.pid for client in self._clients() if isinstance(client, Consumer)}
        own = {os.getpid(), *worker_pids()}
        workers = {worker.pid for worker in self._runner.workers.values()} - training - own
        loops = any(each.looping for each in self._loops.values())
        self._machine.sample(reports, loops, workers, own, {*training, *self._siblings})

    def forget(self, consumer: Consumer) -> None:
        """Forget a consumer that has disconnected."""
        self._loops.pop(consumer, None)
        if consumer is self._tracer:
            self._end_trace()
            self._ended = None

    # Traces ---------------------------------------------------------------------------------------------------------

    def _trace(self, consumer: Consumer) -> dict[str, Any]:
        self._tracer, self._ended = consumer, None
        self._runner.trace = recorded = HostTrace()
        for variant in self._variants():
            variant.executor.trace = recorded.trace
        return {}

    def _end_trace(self) -> dict[str, Any]:
        """Stop the trace and return its spans, a few at a time."""
        if self._runner.trace is not None:
            self._ended, self._runner.trace = self._runner.trace, None
            for variant in self._variants():
                variant.executor.trace = profiler_trace()
        if self._ended is None:
            return {"processes": [], "dropped": 0, "more": False}
        report = self._ended.take()
        if not report["more"]:
            self._ended = self._tracer = None
        return report

    # Samples --------------------------------------------------------------------------------------------------------

    def _draw(self, request: Request, outputs: Sequence[TensorList]) -> None:
        """Draw a batch, on a thread of the executor, for all clients that wait for it."""
        self._runner.on_outputs = None
        waiting = []
        while self._waiting:
            waiting.append(self._waiting.popleft())
        if not waiting:
            return
        from dali_proxy._host.thumbnails import draw_thumbnails  # most servers draw nothing

        try:
            report = draw_thumbnails(outputs, request.indices)
            report["batch"] = {"epoch": request.key.epoch, "number": request.key.iteration, "samples": request.size}
        except Exception as error:  # noqa: BLE001  # drawing must not fail the batch
            report = {"sheets": [], "error": f"{type(error).__name__}: {error}"}
        text = json.dumps(report)
        for client, token in waiting:
            self._call_soon(partial(client.send, Stats(token, text)))


def _fields(report: LoopReport) -> dict[str, Any]:
    return {name: getattr(report, name) for name in report.__struct_fields__}


def _resident_bytes() -> int:
    """Return the memory of this process, including shared memory that it has touched."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * _PAGE
    except OSError:
        return 0
