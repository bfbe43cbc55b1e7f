"""Removal of the files that CUDA's driver leaves, for one process only."""

from __future__ import annotations

import os
from pathlib import Path

from dali_proxy._host.driver_files import remove_driver_files


def test_driver_files_of_other_processes_stay() -> None:
    pid = 0x7FFFFFF0  # higher than any process ID
    shared = Path("/dev/shm")
    own = [shared / f"cuda.shm.{os.getuid():x}.{pid:x}.{number}" for number in (1, 2)]
    other = shared / f"cuda.shm.{os.getuid():x}.{pid + 1:x}.1"
    for path in (*own, other):
        path.touch()
    try:
        remove_driver_files(pid)
        assert not any(path.exists() for path in own)
        assert other.exists()
        remove_driver_files(pid)  # no files: does nothing
    finally:
        other.unlink()
