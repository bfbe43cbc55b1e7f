"""The compiled loops over the samples of a batch, where they were built.

Without them, Python does the same for one sample after the other.
"""

from __future__ import annotations

from pipeline._native import find_compiled

__all__ = ["compiled"]

compiled = find_compiled("_bulk")
"""The module `_native`: `read_files` and `gather`; None where it isn't there."""
