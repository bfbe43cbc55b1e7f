"""The requests that somebody may still fetch."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator

from dali_proxy._host.requests import Request

__all__ = ["Store"]

_CLOSED_SESSIONS = 1 << 16  # that are remembered, to refuse what still comes for them
_UNCLAIMED = 512  # results that nobody claims, however small: each has a descriptor for each output


class Store:
    """Finds requests by (client, number) and by session, and bounds what nobody claims.

    A loader that isn't ours has no sessions. What such a loader's workers leave behind when they end is kept, since
    it may still be fetched, up to `unclaimed_bytes` and 512 batches; then the oldest is dropped.

    Args:
        unclaimed_bytes: bytes of results of workers that are gone, without a session.
        drop: called with a request that is to be dropped.
    """

    def __init__(self, unclaimed_bytes: int, drop: Callable[[Request], None]) -> None:
        self._limit = unclaimed_bytes
        self._drop = drop
        self._requests: dict[tuple[int, int], Request] = {}
        self._by_session: dict[int, set[Request]] = {}
        self._closed_sessions: OrderedDict[int, None] = OrderedDict()
        self._unclaimed: OrderedDict[Request, None] = OrderedDict()
        self._unclaimed_bytes = 0

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[Request]:
        return iter(list(self._requests.values()))

    def find(self, client: int, seq: int) -> Request | None:
        """Return a request, or None if there is none (any more)."""
        return self._requests.get((client, seq))

    def add(self, request: Request) -> None:
        """Add a request."""
        self._requests[request.worker.client, request.seq] = request
        if request.session:
            self._by_session.setdefault(request.session, set()).add(request)

    def remove(self, request: Request) -> None:
        """Take a request out; one that isn't there does no harm."""
        self._requests.pop((request.worker.client, request.seq), None)
        members = self._by_session.get(request.session)
        if members is not None:
            members.discard(request)
            if not members:
                del self._by_session[request.session]
        if self._unclaimed.pop(request, self) is None:
            self._unclaimed_bytes -= request.kept_bytes

    def following(self, request: Request, count: int) -> list[Request]:
        """Return the requests of the same session that come after one and were not asked for, in order."""
        place = (request.key.iteration, request.key.view)
        later = []
        for each in self._by_session.get(request.session, ()):
            its = (each.key.iteration, each.key.view)
            if each.waiter is None and its > place:
                later.append((its, each.seq, each.worker.client, each))
        return [each for *_, each in sorted(later)[:count]]  # there are few

    def is_closed(self, session: int) -> bool:
        """Whether a session has ended."""
        return session in self._closed_sessions

    def close_session(self, session: int) -> None:
        """End a session: all its requests are dropped, and later ones will be refused."""
        self._closed_sessions[session] = None
        if len(self._closed_sessions) > _CLOSED_SESSIONS:
            self._closed_sessions.popitem(last=False)
        for request in list(self._by_session.get(session, ())):
            self._drop(request)

    def leave_unclaimed(self, request: Request) -> None:
        """Note that a request is done, that its worker is gone and that it has no session."""
        if request in self._unclaimed:
            return
        self._unclaimed[request] = None
        self._unclaimed_bytes += request.kept_bytes
        while len(self._unclaimed) > 1 and (self._unclaimed_bytes > self._limit or len(self._unclaimed) > _UNCLAIMED):
            self._drop(next(iter(self._unclaimed)))
