"""The order in which requests go to the executor."""

from __future__ import annotations

import heapq
import time
from collections import deque
from collections.abc import Callable

from dali_proxy._host.requests import Request, State

__all__ = ["Scheduler"]

_Source = tuple[int, int]  # a session, or a client without one
_Order = tuple[int, int, int, int, int]


class Scheduler:
    """Chooses the next request for the executor.

    Iterators take turns, and the batches of one run in the order in which it returns them, whichever worker reads them:
    it waits for the first one. Workers without an iterator take turns, too.

    Invariant: `running` requests are in the executor, at most `depth` when the last one was taken; `_turns` has the
    sources with requests, and `_waiting` their requests, as heaps.

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
        self._turns: deque[_Source] = deque()
        self._waiting: dict[_Source, list[tuple[_Order, Request]]] = {}
        self._since = time.monotonic()

    @property
    def waits(self) -> bool:
        """Whether requests wait."""
        return bool(self._turns)

    @property
    def queued(self) -> int:
        """Number of requests that wait."""
        return sum(map(len, self._waiting.values()))

    def add(self, request: Request) -> None:
        """Queue a request."""
        source = _source(request)
        waiting = self._waiting.get(source)
        if waiting is None:
            waiting = self._waiting[source] = []
            self._turns.append(source)
        heapq.heappush(waiting, (_order(request), request))

    def drop(self, request: Request) -> None:
        """Remove a request from its queue."""
        source = _source(request)
        waiting = self._waiting[source]
        waiting.remove((_order(request), request))
        heapq.heapify(waiting)
        if not waiting:
            del self._waiting[source]
            self._turns.remove(source)

    def take(self, is_held: Callable[[Request], bool] | None = None) -> Request | None:
        """Return the request that the executor gets next; None if no request waits or the executor is full.

        Args:
            is_held: returns whether a request, and all later ones of its source, must wait longer; None for none.
        """
        if not self._turns or self.running >= self.depth:
            return None
        if is_held is not None:
            for _ in self._turns.copy():
                if not is_held(self._waiting[self._turns[0]][0][1]):
                    break
                self._turns.rotate(-1)
            else:
                return None
        source = self._turns.popleft()
        waiting = self._waiting[source]
        _, request = heapq.heappop(waiting)
        if waiting:
            self._turns.append(source)
        else:
            del self._waiting[source]
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


def _source(request: Request) -> _Source:
    return (request.session, 0) if request.session else (0, request.worker.client)


def _order(request: Request) -> _Order:
    """Return the position of a request among those of its source: that of its batch, or of its submission."""
    client, seq = request.worker.client, request.seq
    if not request.session:
        return 0, 0, 0, client, seq
    return request.key.epoch, request.key.iteration, request.key.view, client, seq
