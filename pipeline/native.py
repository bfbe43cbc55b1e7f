"""Finds the modules in C, where they were built.

They are compiled when the package is installed and there is a C compiler. Without them, Python computes the same more
slowly. The environment variable DALI_PROXY_NATIVE=0 leaves them out, to compare.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["find_compiled"]


def find_compiled(folder: str) -> ModuleType | None:
    """Return the module `_native` of a folder of this package; None where it isn't there.

    Args:
        folder: its name, such as "imaging".
    """
    if os.environ.get("DALI_PROXY_NATIVE") == "0":
        return None
    try:
        return importlib.import_module(f"pipeline.{folder}._native")
    except ImportError:
        return None
