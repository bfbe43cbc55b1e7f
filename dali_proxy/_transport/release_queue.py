"""Batches and sessions that a process releases, often from finalizers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import repeat, starmap
from typing import TypeVar

from dali_proxy._transport.protocol import CloseSession, Release

T = TypeVar("T")


def _ignore(released: object) -> None:
    """Do nothing, for a process that remembers nothing about released batches."""


class ReleaseQueue:
    """Released batches and closed sessions that the server hasn't been notified of yet.

    Finalizers add to it at any point of any thread, so adding takes no lock.
    """

    def __init__(self) -> None:
        self._batches: deque[tuple[int, int]] = deque()
        self._sessions: deque[int] = deque()

    def __bool__(self) -> bool:
        return bool(self._batches or self._sessions)

    def add_batch(self, client: int, seq: int) -> None:
        """Add a batch, given by its client and the client's number for it."""
        self._batches.append((client, seq))

    def add_session(self, session: int) -> None:
        """Add a session."""
        self._sessions.append(session)

    def flush(
        self,
        post: Callable[[object], object],
        forget_batches: Callable[[Sequence[tuple[int, int]]], object] = _ignore,
        forget_session: Callable[[int], object] = _ignore,
    ) -> None:
        """Notify the server of all that was added. After an exception, the next call sends everything again.

        Args:
            post: sends a message.
            forget_batches: called before the batches are sent.
            forget_session: called before a session is sent.
        """
        batches: list[tuple[int, int]] = []
        sessions: list[int] = []
        try:
            _drain(self._batches, batches)
            _drain(self._sessions, sessions)
            if batches:
                forget_batches(batches)
                post(Release.pack(batches))
            for session in sessions:
                forget_session(session)
                post(CloseSession(session))
        except BaseException:  # torch's signal handler may raise anywhere; the server ignores repeated messages
            self._batches.extend(batches)
            self._sessions.extend(sessions)
            raise


def _drain(items: deque[T], target: list[T]) -> None:
    """Move all items of a deque to a list, while other threads and finalizers may fill and drain the deque."""
    with suppress(IndexError):  # another thread took the item
        # The loop is in C: a signal handler that raises between removing and storing an item would lose it.
        target.extend(starmap(items.popleft, repeat((), len(items))))
