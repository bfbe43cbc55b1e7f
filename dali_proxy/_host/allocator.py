"""Settings of the C library's allocator for the server's process."""

from __future__ import annotations

import ctypes
from contextlib import suppress

# Options of `mallopt` (malloc.h of glibc), and their values in bytes.
_TRIM_THRESHOLD, _TOP_PAD = -1, -2
_KEPT = 256 << 20
_STEP = 16 << 20


def keep_freed_memory() -> None:
    """Let the allocator keep freed memory for later allocations, instead of returning it to the kernel at once.

    Operators allocate and free images all the time, on several threads. By default, glibc returns the end of a thread's
    heap as soon as 128 KB are free there, and the kernel clears each page when it comes back. With a blur, that took
    two fifths of the processor time of a batch. Other C libraries don't have the options; nothing happens there.
    """
    with suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_TRIM_THRESHOLD, _KEPT)
        mallopt(_TOP_PAD, _STEP)
