"""The batches that a consumer fetches early, so that they are on the GPU when a thread asks for them."""

from __future__ import annotations

from collections.abc import Sequence

from dali_proxy._transport.origin import Key

__all__ = ["AHEAD", "Lookahead"]

AHEAD = 2  # batches fetched beyond the awaited one: one is in flight while the next one is ready


class Lookahead:
    """Records the next batches of each session and the early fetches. The caller holds a lock.

    Invariant: `_early` has the requests that were fetched for a session and not asked for, at most `limit`.

    Args:
        limit: maximum number of batches of a session that are fetched early.
    """

    def __init__(self, limit: int = AHEAD) -> None:
        self._limit = limit
        self._following: dict[int, list[Key]] = {}  # by open session
        self._early: dict[int, set[Key]] = {}

    def open(self, session: int) -> None:
        """Add a session."""
        self._following[session] = []
        self._early[session] = set()

    def close(self, session: int) -> set[Key]:
        """Remove a session. Return its early fetches that no thread has asked for."""
        self._following.pop(session, None)
        return self._early.pop(session, set())

    def note(self, session: int, following: Sequence[Key]) -> list[Key]:
        """Record the next batches of a session.

        Args:
            session: the session; ignored if it isn't open.
            following: the batches that the server announced, in order, without those that were asked for.

        Returns:
            The batches to fetch now.
        """
        if session not in self._following:
            return []
        self._following[session] = list(following)
        return self._take(session)

    def ask(self, key: Key) -> list[Key]:
        """Record that a thread asks for a batch. Return the batches to fetch now."""
        for session, early in self._early.items():
            if key in self._following[session]:
                self._following[session].remove(key)
            if key in early:
                early.remove(key)
                return self._take(session)
        return []

    def is_early(self, key: Key) -> bool:
        """Return whether a batch is fetched early and no thread has asked for it."""
        return any(key in early for early in self._early.values())

    def forget(self, key: Key) -> None:
        """Remove a batch that was released."""
        for session, early in self._early.items():
            early.discard(key)
            if key in self._following[session]:
                self._following[session].remove(key)

    def _take(self, session: int) -> list[Key]:
        following, early = self._following[session], self._early[session]
        room = max(self._limit - len(early), 0)
        chosen, self._following[session] = following[:room], following[room:]
        early.update(chosen)
        return chosen
