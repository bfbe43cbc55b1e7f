"""CuPy's cache of compiled kernels on the disk, and how to do without it."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings

__all__ = ["check_kernel_cache", "keep_kernels_in_memory"]

_SPACE = 1 << 16  # bytes of a few compiled kernels


def check_kernel_cache() -> None:
    """Call `keep_kernels_in_memory` if CuPy's folder can't be written. Call this before CuPy is imported.

    Otherwise the import of CuPy fails, or the first kernel, on a machine with a read-only home or a full disk.
    """
    if "cupy" in sys.modules or "CUPY_CACHE_IN_MEMORY" in os.environ:
        return
    folder = _folder()
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_SPACE))
    except OSError as error:
        keep_kernels_in_memory(error)


def keep_kernels_in_memory(error: OSError) -> None:
    """Let CuPy in this process and its children compile without files, and warn that each will compile again."""
    folder = _folder()
    os.environ["CUPY_CACHE_IN_MEMORY"] = "1"
    os.environ["CUPY_CACHE_DIR"] = os.sep  # exists, so CuPy doesn't create a folder; it isn't written
    warnings.warn(
        f"CuPy can't keep compiled kernels in {folder!r} ({error}), so each process compiles them again: set "
        "CUPY_CACHE_DIR to a folder that can be written",
        RuntimeWarning,
        stacklevel=2,
    )


def _folder() -> str:
    return os.environ.get("CUPY_CACHE_DIR") or os.path.expanduser("~/.cupy/kernel_cache")
