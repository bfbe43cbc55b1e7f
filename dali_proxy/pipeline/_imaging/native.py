"""Compiled loops over pixels, if they were built.

Without them, NumPy and OpenCV compute the same results in more passes over memory.
"""

from __future__ import annotations

import numpy as np

from dali_proxy.pipeline._arrays import Array
from dali_proxy.pipeline._native import find_compiled

compiled = find_compiled("_imaging")
"""The module `_native`; None if it wasn't built."""

LOOP_DTYPES = frozenset(map(np.dtype, ("u1", "i1", "u2", "i2", "f4")))
"""Dtypes of the compiled loops for numbers of several types. Others are converted."""


def is_for_loops(array: Array) -> bool:
    """Return whether the compiled loops for numbers of several types can read or write an array where it is."""
    return array.dtype in LOOP_DTYPES and bool(array.flags.aligned)
