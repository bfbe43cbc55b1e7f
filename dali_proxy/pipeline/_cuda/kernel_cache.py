"""CuPy's cache of compiled kernels on the disk, and how to do without it."""

from __future__ import annotations

import os
import tempfile
import warnings
from functools import cache

from dali_proxy.pipeline._trusted_folder import distrust

_SPACE = 1 << 16  # bytes of a few compiled kernels


@cache
def guard_disk_cache() -> None:
    """Let CuPy compile in memory if it can't write its folder, or if other users could. Call this before its import.

    Without the folder, on a machine with a read-only home or a full disk, its import would fail, or the first kernel.
    CuPy runs what it finds there.
    """
    if os.environ.get("CUPY_CACHE_IN_MEMORY", "0") == "1":
        return
    folder = _folder()
    reason = distrust(folder)
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_SPACE))
    except OSError as error:
        reason = reason or str(error)
    if reason:
        keep_kernels_in_memory(reason)


def keep_kernels_in_memory(reason: str) -> None:
    """Let CuPy compile without files in this process and its children."""
    folder = _folder()
    os.environ["CUPY_CACHE_IN_MEMORY"] = "1"
    os.environ["CUPY_CACHE_DIR"] = os.sep  # exists, so CuPy doesn't create a folder; it isn't written
    warnings.warn(
        f"the kernel cache isn't used ({folder}), so each process compiles its kernels: {reason}. Set CUPY_CACHE_DIR "
        "to a folder with free space that only you can write to",
        RuntimeWarning,
        stacklevel=2,
    )


def _folder() -> str:
    return os.environ.get("CUPY_CACHE_DIR") or os.path.expanduser("~/.cupy/kernel_cache")
