"""Finds the modules in C, where they were built.

They are compiled when the package is installed and there is a C compiler. Without them, Python computes the same more
slowly. The environment variable DALI_PROXY_NATIVE=0 leaves them out, to compare. In a checkout, those that are older
than their sources are left out, too: Python may call what they don't have.

These modules count on the GIL. They don't declare that they run without it, so a free-threaded Python switches the GIL
on, with a warning, when it imports the first one. ``PYTHON_GIL=0`` would keep it off: that isn't supported.
"""

from __future__ import annotations

import importlib
import os
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["FOLDERS", "OUT_OF_DATE", "checksum", "find_compiled"]

FOLDERS = ("_bulk", "_codecs", "_imaging", "_ipc", "_video")
"""The folders of this package that have a module in C."""

OUT_OF_DATE: set[str] = set()
"""Those of them whose modules were left out because they are older than their sources."""

_HERE = Path(__file__).resolve().parent


def find_compiled(folder: str) -> ModuleType | None:
    """Return the module `_native` of a folder of this package; None where it isn't there, or is out of date.

    Args:
        folder: its name, such as "imaging".
    """
    if os.environ.get("DALI_PROXY_NATIVE") == "0":
        return None
    try:
        module = importlib.import_module(f"{__package__}.{folder}._native")
    except ImportError:
        return None
    if not all(path.exists() for path in (_HERE.parent / "setup.py", _HERE / folder / "_native.c")):
        return module  # installed, and no checkout: nobody changes sources here
    if not hasattr(module, "sources") or module.sources() != checksum(folder):
        OUT_OF_DATE.add(folder)
        return None
    return module


def checksum(folder: str) -> int:
    """Return the checksum of what a folder's module is made of; `setup.py` writes it into the module."""
    value = 0
    for path in [_HERE / folder / "_native.c", *sorted((_HERE / folder).glob("*.h")), *sorted(_HERE.glob("*.h"))]:
        value = zlib.crc32(path.read_bytes(), value)
    return value
