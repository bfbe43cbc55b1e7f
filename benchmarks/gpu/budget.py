"""The time that all measurements share."""

from __future__ import annotations

import time


class Budget:
    """Says whether another measurement may start, and remembers what was left out.

    Args:
        limit: Seconds after which nothing starts any more.
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.left_out: list[str] = []
        self._begin = time.perf_counter()

    @property
    def elapsed(self) -> float:
        """Seconds since this was made."""
        return time.perf_counter() - self._begin

    def allows(self, what: str) -> bool:
        """Whether there is time to start something; if not, it is noted as left out."""
        if self.elapsed < self.limit:
            return True
        if what not in self.left_out:
            self.left_out.append(what)
        return False
