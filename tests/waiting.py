"""Waiting in tests: for a condition, and no longer than somebody should have to wait, on a machine however busy."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE_S = 60.0
"""How long what must happen may take. It decides nothing but when a test that hangs is given up."""

SOON_S = 5.0
"""In how many seconds everybody who waits is told, on a machine that has nothing else to do."""


def wait_until(condition: Callable[[], bool], what: str = "it") -> None:
    """Wait until something holds, or fail."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} took too long"
        time.sleep(0.005)


@contextmanager
def soon() -> Iterator[None]:
    """Check that the block takes no longer than `SOON_S`, the time left out for which the machine was busy.

    Who waits for somebody that will never answer leaves the processors idle; who waits for a processor does not.
    """
    begin, idle = time.monotonic(), _idle_seconds()
    yield
    took, idle = time.monotonic() - begin, _idle_seconds() - idle
    assert min(took, idle) < SOON_S, f"it took {took:.1f} s, of which the processors were idle for {idle:.1f} s"


def _idle_seconds() -> float:
    """Seconds for which this machine's processors were idle since it was started: their mean."""
    idle = Path("/proc/stat").read_text().split()[4]  # of the first line, which sums all of them
    return int(idle) / os.sysconf("SC_CLK_TCK") / (os.cpu_count() or 1)
