"""Compiled loops over pixels, if they were built.

Without them, NumPy and OpenCV compute the same results in more passes over memory.
"""

from __future__ import annotations

from dali_proxy.pipeline._native import find_compiled

compiled = find_compiled("_imaging")
"""The module `_native`; None if it wasn't built."""
