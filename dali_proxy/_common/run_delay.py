"""The time that a thread was ready to run, but got no core."""

from __future__ import annotations

from contextlib import suppress


def run_delay(thread: str = "thread-self") -> float:
    """Return for how many seconds a thread, by its folder in /proc, was ready to run, but got no core; 0 if unknown."""
    with suppress(OSError, ValueError, IndexError), open(f"/proc/{thread}/schedstat", encoding="ascii") as file:
        return int(file.read().split()[1]) / 1e9
    return 0.0
