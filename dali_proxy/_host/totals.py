"""The host's counters."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from dali_proxy._common.latency import Latency
from dali_proxy._host.clients import Consumer, Worker
from dali_proxy._host.requests import Request
from dali_proxy._host.scheduler import Scheduler
from dali_proxy._transport.fields import clip


class Totals:
    """Counters of the host's work since it started.

    Attributes:
        batches: finished batches, including failed ones.
        samples: samples of these batches.
        errors: failed batches.
        last_error: the error of the last failed batch; empty if none failed.
        shared: batches that got the results of equal ones.
        repeated: samples of later epochs than the first.
        dropped: batches that were cancelled or never fetched.
        bytes_in: bytes of samples.
        bytes_out: bytes of results.
        arena_wait: seconds that disconnected workers waited for free space in their shared memory.
        latency: durations of the stages of batches, "queue" and "pipeline", but for those of connected consumers.
    """

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self.batches = 0
        self.samples = 0
        self.errors = 0
        self.last_error = ""
        self.dropped = 0
        self.shared = 0
        self.repeated = 0
        self._first_epoch = -1
        self.bytes_in = 0
        self.bytes_out = 0
        self.arena_wait = 0.0
        self.latency = {"queue": Latency(), "pipeline": Latency()}

    def end_stage(self, request: Request, stage: str, consumer: Consumer | None) -> None:
        """Count the duration of a stage of a batch, which ends now, for the process that fetches it, if known."""
        now = time.monotonic()
        latency = self.latency if consumer is None else consumer.latency
        latency[stage].add(now - request.since)
        request.since = now

    def adopt(self, consumer: Consumer) -> None:
        """Keep the durations of a process that has disconnected."""
        for stage, each in consumer.latency.items():
            self.latency[stage] += each

    def count(self, request: Request) -> None:
        """Count a finished batch."""
        self.batches += 1
        self.samples += request.size
        if self._first_epoch < 0:
            self._first_epoch = request.key.epoch
        if request.key.epoch > self._first_epoch:
            self.repeated += request.size
        if request.failure is not None:
            self.errors += 1
            self.last_error = clip(request.failure.message, 500)
        elif request.staged is not None:
            self.bytes_out += request.staged.nbytes

    def report(self, scheduler: Scheduler, workers: Iterable[Worker], consumers: Iterable[Consumer]) -> dict[str, Any]:
        """Return all counters, with the measurements of the scheduler and of the connected workers and consumers."""
        connected = list(workers)
        latency = [self.latency, *(consumer.latency for consumer in consumers)]
        return {
            "seconds": time.monotonic() - self._begin,
            "batches": self.batches,
            "samples": self.samples,
            "errors": self.errors,
            "last_error": self.last_error,
            "dropped": self.dropped,
            "shared": self.shared,
            "repeated": self.repeated,
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "arena_wait": self.arena_wait + sum(worker.waited for worker in connected),
            "workers": len(connected),
            "queued": scheduler.queued,
            "running": scheduler.running,
            "depth": scheduler.depth,
            "busy": scheduler.busy_seconds,
            "occupancy": scheduler.occupancy_seconds,
            "latency": {stage: sum([each[stage] for each in latency], Latency()).counts() for stage in self.latency},
        }
