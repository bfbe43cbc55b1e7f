"""The time that a thread was ready to run, but got no core."""

from __future__ import annotations

import os
from contextlib import suppress


def run_delay(thread: str = "thread-self") -> float:
    """Return for how many seconds a thread, by its folder in /proc, was ready to run, but got no core; 0 if unknown."""
    with suppress(OSError, ValueError, IndexError):
        file = os.open(f"/proc/{thread}/schedstat", os.O_RDONLY | os.O_CLOEXEC)  # `open` takes twice as long
        try:
            return int(os.read(file, 80).split()[1]) / 1e9
        finally:
            os.close(file)
    return 0.0
