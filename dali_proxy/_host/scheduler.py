"""The order in which requests go to the executor."""

from __future__ import annotations

import heapq
import time
from collections import deque
from collections.abc import Callable, Collection

from dali_proxy._host.requests import Request, State

IsHeld = Callable[[Request, Collection[Request]], bool]
"""Returns whether the requests of a source must wait; called with its next request and with all of them."""

_Source = tuple[int, int]  # a session, or a client without one
_Order = tuple[int, int, int, int, int]


class Scheduler:
    """Chooses the next request for the executor.

    Iterators take turns, and the batches of one run in the order in which it returns them, whichever worker reads them:
    it waits for the first one. Workers without an iterator take turns, too.

    Invariant: `running` requests are in the executor, at most `depth` when the last one was taken; `turns` has the
    sources with requests, and `_waiting` their requests, as heaps.

    Args:
        depth: number of requests that may be in the executor at once.

    Attributes:
        depth: the same; it may change.
        running: number of requests in the executor.
        busy_seconds: time during which there was at least one.
        occupancy_seconds: integral of `running` over time.
        turns: the sources with requests that wait, in the order of their turns.
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.running = 0
        self.busy_seconds = 0.0
        self.occupancy_seconds = 0.0
        self.turns: deque[_Source] = deque()
        self._waiting: dict[_Source, list[tuple[_Order, Request]]] = {}
        self._since = time.monotonic()

    def waits(self, is_held: IsHeld | None = None) -> bool:
        """Return whether requests wait for the executor, other than those that are held."""
        return bool(self.turns) and (is_held is None or self._next_source(is_held) is not None)

    @property
    def queued(self) -> int:
        """Number of requests that wait."""
        return sum(map(len, self._waiting.values()))

    def add(self, request: Request) -> None:
        """Queue a request."""
        session, client, key = request.session, request.worker.client, request.key
        source = (session, 0) if session else (0, client)
        waiting = self._waiting.get(source)
        if waiting is None:
            waiting = self._waiting[source] = []
            self.turns.append(source)
        # Its position among those of its source: that of its batch, or of its submission.
        number = (key.epoch, key.iteration, key.view) if session else (0, 0, 0)
        heapq.heappush(waiting, ((*number, client, request.seq), request))

    def drop(self, request: Request) -> None:
        """Remove a request from its queue."""
        source = (request.session, 0) if request.session else (0, request.worker.client)
        waiting = [(order, other) for order, other in self._waiting[source] if other is not request]
        heapq.heapify(waiting)
        self._waiting[source] = waiting
        if not waiting:
            del self._waiting[source]
            self.turns.remove(source)

    def take(self, is_held: IsHeld | None = None) -> Request | None:
        """Return the request that the executor gets next; None if no request waits or the executor is full.

        Args:
            is_held: decides about the requests of each source; None if none are held.
        """
        if self.running >= self.depth or not self.turns:
            return None
        source = self.turns[0] if is_held is None else self._next_source(is_held)
        if source is None:
            return None
        self.turns.remove(source)
        waiting = self._waiting[source]
        _, request = heapq.heappop(waiting)
        if waiting:
            self.turns.append(source)
        else:
            del self._waiting[source]
        self.measure()
        self.running += 1
        request.state = State.RUNNING
        return request

    def _next_source(self, is_held: IsHeld) -> _Source | None:
        for source in self.turns:
            requests = [request for _, request in self._waiting[source]]  # a heap: the next one is the first one
            if not is_held(requests[0], requests):
                return source
        return None

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
