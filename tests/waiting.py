"""Waiting for conditions in tests, with time limits that don't depend on the load of the machine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE_S = 60.0
"""Seconds that an expected event may take. It only determines when a hanging test is aborted."""

SOON_S = 5.0
"""Seconds within which all waiting callers must be notified, on an otherwise idle machine."""


def wait_until(condition: Callable[[], bool], what: str = "it") -> None:
    """Wait until a condition is true, or fail."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} took too long"
        time.sleep(0.005)


@contextmanager
def soon() -> Iterator[None]:
    """Check that the block takes at most `SOON_S`, not counting the time for which the machine was busy.

    A thread that waits for an answer leaves the processors idle; a thread that waits for a processor doesn't.
    """
    begin, idle = time.monotonic(), _idle_seconds()
    yield
    took, idle = time.monotonic() - begin, _idle_seconds() - idle
    assert min(took, idle) < SOON_S, f"it took {took:.1f} s, of which the processors were idle for {idle:.1f} s"


def _idle_seconds() -> float:
    """Return the mean time in seconds for which the machine's processors were idle since its start."""
    idle = Path("/proc/stat").read_text().split()[4]  # in the first line, which sums all processors
    return int(idle) / os.sysconf("SC_CLK_TCK") / (os.cpu_count() or 1)
