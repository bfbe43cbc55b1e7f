"""The compiled loops over pixels, where they were built.

`_native.c` is compiled when the package is installed and there is a C compiler. Without it, NumPy and OpenCV compute
the same in more passes over memory. The environment variable DALI_PROXY_NATIVE=0 leaves it out, to compare.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["compiled"]

compiled: ModuleType | None
"""The module `_native`: `resample` and `normalize`; None where it isn't there."""

try:
    from pipeline.imaging import _native
except ImportError:
    compiled = None
else:
    compiled = None if os.environ.get("DALI_PROXY_NATIVE") == "0" else _native
