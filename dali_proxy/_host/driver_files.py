"""What CUDA's driver leaves behind for a process that shared memory or events."""

from __future__ import annotations

import contextlib
from pathlib import Path

__all__ = ["remove_driver_files"]


def remove_driver_files(pid: int) -> None:
    """Remove the shared memory that the driver made for a process that has ended, or is about to.

    The driver names it `/dev/shm/cuda.shm.UID.PID.NUMBER`, both in hexadecimal digits, and removes it only when a
    process resets its primary context, which would take the results away that a training still reads.
    Processes that have mapped it keep it.
    """
    for path in Path("/dev/shm").glob(f"cuda.shm.*.{pid:x}.*"):
        with contextlib.suppress(OSError):  # another one removed it, or its user has the same number elsewhere
            path.unlink()
