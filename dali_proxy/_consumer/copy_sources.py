"""Host memory that copies to a GPU read: it must neither be freed nor reused before they are done."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dali_proxy._consumer.side_stream import Event, Stream


class CopySources:
    """Keeps host memory until the GPU has read it. Only one thread at a time may use it."""

    def __init__(self) -> None:
        self._copying: deque[tuple[Event, Any]] = deque()
        self._unmarked: list[Any] = []  # memory for which no event could be recorded

    def hold(self, stream: Stream, memory: Any) -> Event:
        """Keep memory until the work that was issued so far is done. Return the event after that work.

        Copies that were issued before an error continue, so call this after an error, too.
        """
        try:
            event = stream.record_event()
        except BaseException:
            self._unmarked.append(memory)
            raise
        self._copying.append((event, memory))
        return event

    def release_finished(self) -> None:
        """Release the memory that the GPU has read."""
        while self._copying and _is_done(self._copying[0][0]):
            self._copying.popleft()

    def wait(self) -> None:
        """Wait for all copies, and release their memory."""
        while self._copying:
            with suppress(Exception):  # the GPU is in an error state: it has stopped reading
                self._copying[0][0].synchronize()
            self._copying.popleft()


def _is_done(event: Event) -> bool:
    try:
        return event.query()
    except Exception:  # noqa: BLE001  # the GPU is in an error state: it has stopped reading
        return True
