"""The compiled loops over pixels, where they were built.

`_native.c` is compiled when the package is installed and there is a C compiler. Without it, NumPy and OpenCV compute
the same in more passes over memory. The environment variable DALI_PROXY_NATIVE=0 leaves it out, to compare.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["compiled"]


def _find() -> ModuleType | None:
    if os.environ.get("DALI_PROXY_NATIVE") == "0":
        return None
    try:
        return importlib.import_module("pipeline.imaging._native")
    except ImportError:
        return None


compiled = _find()
"""The module `_native`: `resample` and `normalize`; None where it isn't there."""
