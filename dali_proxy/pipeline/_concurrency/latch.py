"""`Latch`: lets threads wait until something has happened."""

from __future__ import annotations

import queue
from contextlib import suppress

# Seconds between checks: a signal that arrives just before a wait doesn't end it.
_INTERVAL = 1.0


class Latch:
    """It opens once, for all threads that wait or will wait.

    In contrast to `threading.Event`, no lock stays taken if a signal handler raises in a thread that waits.

    Example:
        >>> latch = Latch()
        >>> latch.open()
        >>> latch.wait()
    """

    __slots__ = ("_queue", "is_open")

    def __init__(self) -> None:
        self.is_open = False
        self._queue: queue.SimpleQueue[None] = queue.SimpleQueue()

    def open(self) -> None:
        """Open it."""
        self.is_open = True
        self._queue.put(None)

    def wait(self) -> None:
        """Wait until it is open."""
        while not self.is_open:
            with suppress(queue.Empty):
                self._queue.get(timeout=_INTERVAL)
                self._queue.put(None)  # for other threads, which would notice later
