"""The time that a thread was ready to run, but got no core."""

from __future__ import annotations

from contextlib import suppress


def run_delay() -> float:
    """Return for how many seconds this thread was ready to run, but got no core; 0 if the system doesn't say."""
    with suppress(OSError, ValueError, IndexError), open("/proc/thread-self/schedstat", encoding="ascii") as file:
        return int(file.read().split()[1]) / 1e9
    return 0.0
