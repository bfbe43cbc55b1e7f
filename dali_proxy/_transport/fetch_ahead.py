"""Which batches a consumer fetches before anybody asks for them, so that they are on the GPU when somebody does."""

from __future__ import annotations

from collections.abc import Sequence

from dali_proxy._transport.origin import Key

__all__ = ["AHEAD", "Lookahead"]

AHEAD = 2  # batches that are made beyond what somebody waits for: one is on its way while the next one is ready


class Lookahead:
    """Keeps note of what comes next in each session, and of what was fetched early. It has no lock of its own.

    Invariant: `_early` has the requests that were fetched for a session and not asked for, at most `limit`.

    Args:
        limit: most batches of a session that are fetched early.
    """

    def __init__(self, limit: int = AHEAD) -> None:
        self._limit = limit
        self._following: dict[int, list[Key]] = {}  # by session, while it is open
        self._early: dict[int, set[Key]] = {}

    def open(self, session: int) -> None:
        """A session begins."""
        self._following[session] = []
        self._early[session] = set()

    def close(self, session: int) -> set[Key]:
        """A session has ended. Return what was fetched early for it and is not wanted now."""
        self._following.pop(session, None)
        return self._early.pop(session, set())

    def note(self, session: int, following: Sequence[Key]) -> list[Key]:
        """Take note of what comes next.

        Args:
            session: of which session; one that isn't open is left alone.
            following: the server's word, in order, without what was asked for already.

        Returns:
            What to fetch now.
        """
        if session not in self._following:
            return []
        self._following[session] = list(following)
        return self._take(session)

    def ask(self, key: Key) -> list[Key]:
        """Somebody asks for a batch, early or not. Return what to fetch now."""
        for session, early in self._early.items():
            if key in self._following[session]:
                self._following[session].remove(key)
            if key in early:
                early.remove(key)
                return self._take(session)
        return []

    def is_early(self, key: Key) -> bool:
        """Whether a batch is fetched early, and nobody has asked for it."""
        return any(key in early for early in self._early.values())

    def forget(self, key: Key) -> None:
        """Nobody wants a batch."""
        for session, early in self._early.items():
            early.discard(key)
            if key in self._following[session]:
                self._following[session].remove(key)

    def _take(self, session: int) -> list[Key]:
        following, early = self._following[session], self._early[session]
        room = max(self._limit - len(early), 0)
        taken, self._following[session] = following[:room], following[room:]
        early.update(taken)
        return taken
