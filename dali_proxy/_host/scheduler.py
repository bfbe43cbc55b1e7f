"""The order in which requests go to the executor."""

from __future__ import annotations

import time
from collections import deque

from dali_proxy._host.clients import Worker
from dali_proxy._host.requests import Request, State

__all__ = ["Scheduler"]


class Scheduler:
    """Chooses the next request for the executor: workers take turns, the requests of one worker stay in order.

    Invariant: `running` requests are in the executor, at most `depth` when the last one was taken; the queues of the
    workers in `_turns`, and only those, have requests.

    Args:
        depth: number of requests that may be in the executor at once.

    Attributes:
        depth: the same; it may change.
        running: number of requests in the executor.
        busy_seconds: time during which there was at least one.
        occupancy_seconds: integral of `running` over time.
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.running = 0
        self.busy_seconds = 0.0
        self.occupancy_seconds = 0.0
        self._turns: deque[Worker] = deque()
        self._since = time.monotonic()

    @property
    def waits(self) -> bool:
        """Whether requests wait."""
        return bool(self._turns)

    @property
    def queued(self) -> int:
        """Number of requests that wait."""
        return sum(len(worker.queue) for worker in self._turns)

    def add(self, request: Request) -> None:
        """Queue a request."""
        if not request.worker.queue:
            self._turns.append(request.worker)
        request.worker.queue.append(request)

    def drop(self, request: Request) -> None:
        """Remove a request from its queue."""
        queue = request.worker.queue
        queue.remove(request)
        if not queue:
            self._turns.remove(request.worker)

    def take(self) -> Request | None:
        """Return the request that the executor gets next; None if no request waits or the executor is full."""
        if not self._turns or self.running >= self.depth:
            return None
        worker = self._turns.popleft()
        request = worker.queue.popleft()
        if worker.queue:
            self._turns.append(worker)
        self.measure()
        self.running += 1
        request.state = State.RUNNING
        return request

    def finish(self) -> None:
        """Record that the executor has finished one request."""
        self.measure()
        self.running -= 1

    def measure(self) -> None:
        """Bring the attributes that measure time up to date."""
        now = time.monotonic()
        passed = now - self._since
        self._since = now
        self.busy_seconds += passed * (self.running > 0)
        self.occupancy_seconds += passed * self.running
