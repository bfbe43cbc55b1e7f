"""Calls of libraries that may never return: another thread notices, and gives up the work that waits for them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dali_proxy.pipeline._concurrency.finalizers import THREAD_PREFIX, call_back

#: What ends the work of a thread in its place; called with the thread and the reason.
GiveUp = Callable[[threading.Thread, str], None]

_LOOK = 1.0  # seconds between checks


class _Thread(threading.local):
    give_up: GiveUp | None = None


this_thread = _Thread()
"""Its attribute `give_up` ends the work of this thread if a watched call never returns.

It is called on another thread, once. If the call returns later, the thread must not use its results.
"""


class StuckCalls:
    """Watches calls that may take `limit` seconds, on a thread that ends with `close`.

    `reason` is for those that wait for a call that is given up.

    Attributes:
        found: whether a call took longer.
    """

    def __init__(self, reason: str, limit: float) -> None:
        self.found = False
        self._reason = reason
        self._limit = limit
        #: By thread: when its call began, and how to end its work.
        self._calls: dict[threading.Thread, tuple[float, GiveUp | None]] = {}
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._look, name=f"{THREAD_PREFIX}stuck-calls", daemon=True)
        self._thread.start()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch the calls of this thread in the context."""
        thread = threading.current_thread()
        self._calls[thread] = time.monotonic(), this_thread.give_up
        try:
            yield
        finally:
            self._calls.pop(thread, None)

    def close(self) -> None:
        """End the thread. Idempotent."""
        self._closed.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _look(self) -> None:
        while not self._closed.wait(min(_LOOK, self._limit)):
            for thread, (begin, give_up) in list(self._calls.items()):
                if time.monotonic() - begin > self._limit and self._calls.pop(thread, None) is not None:
                    self.found = True
                    if give_up is not None:
                        call_back(give_up, thread, self._reason)
