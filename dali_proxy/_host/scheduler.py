"""Decides which request the executor gets next."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from dali_proxy._host.clients import Worker
from dali_proxy._host.requests import Request, State

__all__ = ["Scheduler"]


class Scheduler:
    """Keeps the executor supplied: workers take turns, the requests of one worker stay in order.

    Invariant: `running` requests are in the executor, at most `depth`; the queues of the workers in `_turns`, and
    only those, have requests.

    Args:
        depth: requests that may be in the executor at once.
        start: gives a request to the executor.

    Attributes:
        running: requests in the executor.
        busy_seconds: time during which there was at least one.
        occupancy_seconds: integral of `running` over time.
    """

    def __init__(self, depth: int, start: Callable[[Request], None]) -> None:
        self.depth = depth
        self.running = 0
        self.busy_seconds = 0.0
        self.occupancy_seconds = 0.0
        self._start = start
        self._turns: deque[Worker] = deque()
        self._since = time.monotonic()

    @property
    def queued(self) -> int:
        """Requests that wait."""
        return sum(len(worker.queue) for worker in self._turns)

    def add(self, request: Request) -> None:
        """Queue a request."""
        if not request.worker.queue:
            self._turns.append(request.worker)
        request.worker.queue.append(request)
        self.fill()

    def drop(self, request: Request) -> None:
        """Take a request out of its queue again."""
        queue = request.worker.queue
        queue.remove(request)
        if not queue:
            self._turns.remove(request.worker)

    def finished(self) -> None:
        """Take note that the executor is done with one request."""
        self._account()
        self.running -= 1
        self.fill()

    def fill(self) -> None:
        """Give requests to the executor while it has room."""
        while self._turns and self.running < self.depth:
            worker = self._turns.popleft()
            request = worker.queue.popleft()
            if worker.queue:
                self._turns.append(worker)
            self._account()
            self.running += 1
            request.state = State.RUNNING
            self._start(request)

    def measure(self) -> None:
        """Bring the attributes that measure time up to date."""
        self._account()

    def _account(self) -> None:
        now = time.monotonic()
        passed = now - self._since
        self._since = now
        self.busy_seconds += passed * (self.running > 0)
        self.occupancy_seconds += passed * self.running
