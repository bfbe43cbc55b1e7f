"""The compiled loops over the samples of a batch, if they were built.

Without them, Python does the same sample by sample.
"""

from __future__ import annotations

from dali_proxy.pipeline._native import find_compiled

compiled = find_compiled("_bulk")
"""The module `_native`: `read_files`, `read_ranges`, `gather` and `fill_bins`; None if it wasn't built."""

_FEW = 4  # reads that justify another thread
MOST_THREADS = 64


def threads_for(reads: int, available: int) -> int:
    """Return how many threads a compiled loop should use for a number of reads."""
    return max(1, min(available, reads // _FEW, MOST_THREADS))
