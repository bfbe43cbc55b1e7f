"""Files that CUDA's driver leaves behind for a process that shared memory or events."""

from __future__ import annotations

import contextlib
from pathlib import Path


def remove_driver_files(pid: int) -> None:
    """Remove the shared memory that the driver created for a process that has ended or is about to.

    The driver names it `/dev/shm/cuda.shm.UID.PID.NUMBER`, with UID and PID in hexadecimal digits. It removes the file
    only when the process resets its primary context, which would free results that the training still reads.
    Processes that have mapped the file keep their mapping.
    """
    for path in Path("/dev/shm").glob(f"cuda.shm.*.{pid:x}.*"):
        with contextlib.suppress(OSError):  # another process removed it, or it belongs to another user
            path.unlink()
