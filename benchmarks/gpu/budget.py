"""The time that all measurements share."""

from __future__ import annotations

import time


class Budget:
    """A time budget: it decides whether another measurement may start, and records the skipped ones.

    Args:
        limit: Seconds after which no measurement starts.
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.left_out: list[str] = []
        self._begin = time.perf_counter()

    @property
    def elapsed(self) -> float:
        """Seconds since the budget was created."""
        return time.perf_counter() - self._begin

    def allows(self, what: str) -> bool:
        """Return whether there is time for a measurement; if not, record it as skipped."""
        if self.elapsed < self.limit:
            return True
        if what not in self.left_out:
            self.left_out.append(what)
        return False
