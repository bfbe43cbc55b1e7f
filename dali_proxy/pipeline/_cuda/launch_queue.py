"""Launches of a batch that wait to be issued together: one copy of all tables instead of one per launch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dali_proxy.pipeline._cuda.launch import Launch


class LaunchQueue:
    """Launches of one thread on one stream, in order.

    Work that is issued to the stream directly, such as a copy, must come after a `flush`: otherwise it would overtake
    the launches that wait.
    """

    def __init__(self, stream: Any, issue: Callable[[Sequence[Launch]], None]) -> None:
        self.stream = stream
        self._issue = issue
        self._waiting: list[Launch] = []
        self._kept: list[Any] = []
        #: How often launches were flushed.
        self.flushes = 0

    @property
    def waiting(self) -> tuple[Launch, ...]:
        """The launches that wait."""
        return tuple(self._waiting)

    @property
    def kept(self) -> tuple[Any, ...]:
        """The kept memory."""
        return tuple(self._kept)

    def add(self, launch: Launch) -> None:
        """Append a launch."""
        self._waiting.append(launch)

    def keep(self, memory: Any) -> None:
        """Keep memory that launches may use alive until `release`."""
        self._kept.append(memory)

    def flush(self) -> None:
        """Issue all launches that wait."""
        self.flushes += 1
        if self._waiting:
            launches, self._waiting = self._waiting, []
            self._issue(launches)

    def release(self) -> None:
        """Release the kept memory. No later launch may use it."""
        self._kept.clear()
