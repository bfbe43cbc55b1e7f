"""The compiled loops over the samples of a batch, if they were built.

Without them, Python does the same sample by sample.
"""

from __future__ import annotations

from pipeline._native import find_compiled

__all__ = ["compiled"]

compiled = find_compiled("_bulk")
"""The module `_native`: `read_files`, `read_ranges` and `gather`; None if it wasn't built."""
