"""Turns at the GPU: tests that fill its memory, or measure it, run alone; all others run side by side.

Parallel processes of pytest take their turns with locks on files.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["turn"]


@contextmanager
def turn(folder: Path, *, alone: bool) -> Iterator[None]:
    """Wait for a turn at the GPU, and hold it inside the block.

    Args:
        folder: folder of all processes that share the GPU.
        alone: whether no other test may use the GPU meanwhile.
    """
    with _locked(folder / "gpu-queue", fcntl.LOCK_EX) as queue:  # else a test that runs alone would never get its turn
        running = _open(folder / "gpu-turn", fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(queue, fcntl.LOCK_UN)
        try:
            yield
        finally:
            os.close(running)


@contextmanager
def _locked(path: Path, kind: int) -> Iterator[int]:
    descriptor = _open(path, kind)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _open(path: Path, kind: int) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, kind)
    return descriptor
