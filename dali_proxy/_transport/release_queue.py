"""What a process doesn't want of a server any more, as finalizers tell it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import repeat, starmap
from typing import TypeVar

from dali_proxy._transport.protocol import CloseSession, Release

__all__ = ["Unwanted"]

T = TypeVar("T")


def _forget_nothing(what: object) -> None:
    """What a process does that remembers nothing of them."""


class Unwanted:
    """Batches that nobody wants and sessions that have ended, until the server is told.

    Finalizers add to it, at any place of any thread: adding takes no lock.
    """

    def __init__(self) -> None:
        self._batches: deque[tuple[int, int]] = deque()
        self._sessions: deque[int] = deque()

    def __bool__(self) -> bool:
        return bool(self._batches or self._sessions)

    def add_batch(self, client: int, seq: int) -> None:
        """Note a batch by its client, and the client's number of it."""
        self._batches.append((client, seq))

    def add_session(self, session: int) -> None:
        """Note a session."""
        self._sessions.append(session)

    def tell(
        self,
        post: Callable[[object], object],
        forget_batches: Callable[[Sequence[tuple[int, int]]], object] = _forget_nothing,
        forget_session: Callable[[int], object] = _forget_nothing,
    ) -> None:
        """Tell the server what was added; if something is raised, it is told again next time.

        Args:
            post: sends a message.
            forget_batches: called before they are told.
            forget_session: likewise.
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
        except BaseException:  # torch's signal handler may raise anywhere; to send these twice does no harm
            self._batches.extend(batches)
            self._sessions.extend(sessions)
            raise


def _drain(items: deque[T], taken: list[T]) -> None:
    """Move all items of a deque, which other threads and finalizers fill and drain at the same time, into a list."""
    with suppress(IndexError):  # another thread was faster
        # All in C: a signal handler that raises between taking an item and keeping it would lose it.
        taken.extend(starmap(items.popleft, repeat((), len(items))))
