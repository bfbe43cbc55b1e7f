"""The requests that a consumer may still fetch."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator

from dali_proxy._host.requests import Request, State

_CLOSED_SESSIONS = 1 << 16  # remembered, to refuse later requests for them
_UNCLAIMED = 512  # unclaimed results, however small: each has a descriptor for each output


class Store:
    """Finds requests by (client, number) and by session, and limits unclaimed results.

    Only `dali_proxy.DataLoader` has sessions. The workers of other loaders may end before their results are fetched.
    The store keeps up to `unclaimed_bytes` and 512 batches of them, then gives up the oldest.

    Methods that give up requests return them: the caller frees their memory.

    Args:
        unclaimed_bytes: maximum size of the results of disconnected workers without a session, in bytes.
    """

    def __init__(self, unclaimed_bytes: int) -> None:
        self._limit = unclaimed_bytes
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
        """Return a request, or None if the store doesn't have it."""
        return self._requests.get((client, seq))

    def add(self, request: Request) -> None:
        """Add a request."""
        self._requests[request.worker.client, request.seq] = request
        if request.session:
            self._by_session.setdefault(request.session, set()).add(request)

    def remove(self, request: Request) -> None:
        """Remove a request, if the store has it."""
        self._requests.pop((request.worker.client, request.seq), None)
        members = self._by_session.get(request.session)
        if members is not None:
            members.discard(request)
            if not members:
                del self._by_session[request.session]
        if self._unclaimed.pop(request, self) is None:
            self._unclaimed_bytes -= request.held_bytes

    def clear(self) -> list[Request]:
        """Remove and return all requests."""
        return self._remove_all(self)

    def done_in(self, session: int, through: int) -> list[Request]:
        """Return the requests of a session up to a batch that are done, in order."""
        requests = [
            each
            for each in self._by_session.get(session, ())
            if each.state is State.DONE and each.key.iteration <= through
        ]
        return sorted(requests, key=lambda each: (each.key.iteration, each.key.view, each.worker.client, each.seq))

    def is_closed(self, session: int) -> bool:
        """Return whether a session has ended."""
        return session in self._closed_sessions

    def close_session(self, session: int) -> list[Request]:
        """End a session. Remove and return its requests; `is_closed` is true from now on."""
        self._closed_sessions[session] = None
        if len(self._closed_sessions) > _CLOSED_SESSIONS:
            self._closed_sessions.popitem(last=False)
        return self._remove_all(self._by_session.get(session, ()))

    def add_unclaimed(self, request: Request) -> list[Request]:
        """Record that a request is done, that its worker is gone and that it has no session.

        Returns:
            The oldest such requests, removed because they exceed the limit.
        """
        dropped: list[Request] = []
        if request in self._unclaimed:
            return dropped
        self._unclaimed[request] = None
        self._unclaimed_bytes += request.held_bytes
        while len(self._unclaimed) > 1 and (self._unclaimed_bytes > self._limit or len(self._unclaimed) > _UNCLAIMED):
            dropped += self._remove_all([next(iter(self._unclaimed))])
        return dropped

    def _remove_all(self, requests: Iterable[Request]) -> list[Request]:
        removed = list(requests)
        for request in removed:
            self.remove(request)
        return removed
