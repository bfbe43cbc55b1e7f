"""What happened in a server since the last observation."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass, replace
from typing import Any

import psutil

from dali_proxy._monitor.client import MonitorClient
from dali_proxy._server.telemetry import OF_LOOPS, ServerStats
from dali_proxy.pipeline._secrets import redacted


@dataclass(frozen=True)
class Observation:
    """A server at one moment, and its counters for the interval before it.

    Attributes:
        pid: ID of the server's process.
        owner: ID of the process that started the server.
        command: command line of that process.
        total: counters since the server's start.
        recent: counters for the interval.
        processor: processor time of the server's processes per second, in cores.
    """

    pid: int
    owner: int
    command: str
    total: ServerStats
    recent: ServerStats
    processor: float

    @property
    def samples_per_second(self) -> float:
        """Number of samples per second that loops took; without a loop over our loaders, that the server made."""
        recent = self.recent
        return recent.loop_samples / self._clock if self.total.loop_batches else recent.samples / self._seconds

    @property
    def batches_per_second(self) -> float:
        """Number of batches per second, likewise."""
        recent = self.recent
        return recent.loop_batches / self._clock if self.total.loop_batches else recent.batches / self._seconds

    @property
    def _seconds(self) -> float:
        return max(self.recent.seconds, 1e-9)

    @property
    def _clock(self) -> float:
        """Time in which loops took their batches. They report now and then, so it isn't exactly the interval."""
        recent = self.recent
        loops = recent.training + recent.worker_wait + recent.result_wait + recent.start_wait
        clock = loops / max(recent.consumers, 1)
        return clock if clock > self._seconds / 2 else self._seconds

    @property
    def busy(self) -> float:
        """Share of the interval for which the pipeline was busy."""
        return min(1.0, self.recent.busy / self._seconds)

    @property
    def in_flight(self) -> int:
        """Number of batches in the server: waiting for the pipeline, in it, or not fetched yet."""
        return self.total.waiting_results

    @property
    def loop_shares(self) -> dict[str, float]:
        """Shares of the loops' time: training, waiting for workers, waiting for results."""
        recent = self.recent
        times = {"training": recent.training, "workers": recent.worker_wait, "results": recent.result_wait}
        total = sum(times.values())
        return {name: seconds / total if total > 0 else 0.0 for name, seconds in times.items()}

    @property
    def advice(self) -> str:
        """Advice for the interval; if nothing happened in it, for the time since the start."""
        if self.recent.limited_by or not self.total.limited_by:
            return self.recent.advice
        return f"Since the start: {self.total.advice}"

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, for JSON."""
        return {
            "pid": self.pid,
            "owner": self.owner,
            "command": self.command,
            "samples_per_second": self.samples_per_second,
            "batches_per_second": self.batches_per_second,
            "in_flight": self.in_flight,
            "busy": self.busy,
            "processor": self.processor,
            "loop": self.loop_shares,
            "limited_by": self.recent.limited_by,
            "advice": self.advice,
            "total": self.total.to_dict(),
        }


class Observer:
    """Observes one server repeatedly. The first observation covers the time since the server's start."""

    def __init__(self, client: MonitorClient) -> None:
        self._client = client
        self._process = psutil.Process(client.pid)
        self._last: tuple[ServerStats, float, float] | None = None

    def observe(self) -> Observation:
        """Return an observation.

        Raises:
            ProxyError: the server is gone or doesn't answer.
            psutil.Error: its process is gone.
        """
        stats, now = self._client.stats(), time.monotonic()
        others = [psutil.Process(other.pid) for other in self._client.others]
        times = [process.cpu_times() for process in (self._process, *others)]
        processor = sum(each.user + each.system for each in times)
        before, since, used = self._last or (ServerStats(), now - stats.seconds, 0.0)
        self._last = stats, now, processor
        owner = self._process
        with self._process.oneshot():
            is_host = any("dali_proxy._host" in word for word in self._process.cmdline())
            owner = (self._process.parent() or owner) if is_host else owner
            command = redacted(shlex.join(owner.cmdline()))
        recent = stats - before if stats.seconds > before.seconds else stats  # the server may have started again
        if recent.loop_batches < 0:  # a process with loops has ended, and its counters with it
            nothing: dict[str, Any] = dict.fromkeys(OF_LOOPS, 0)
            recent = replace(recent, **nothing)
        spent = max(now - since, 1e-9)
        return Observation(self._client.pid, owner.pid, command, stats, recent, max(processor - used, 0.0) / spent)
