"""Load the compiled C modules, if they exist.

They are compiled when the package is installed, if a C compiler is available. Without them, slower Python code computes
the same results. For comparisons, the environment variable DALI_PROXY_NATIVE=0 disables them. In a checkout, modules
that were compiled from other sources are disabled, too, with a warning, because the Python code may call functions that
they don't have.

These modules require the GIL. They don't declare support for running without it, so a free-threaded Python enables the
GIL, with a warning, when it imports the first one. ``PYTHON_GIL=0``, which would keep it disabled, isn't supported.
"""

from __future__ import annotations

import importlib
import os
import warnings
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

COMPILE = "python setup.py build_ext --inplace --force"
"""Compiles all modules of a checkout. Without ``--force``, setuptools skips those that are newer than their sources."""

FOLDERS = ("_bulk", "_codecs", "_cuda", "_imaging", "_ipc", "_video")
"""The folders of this package that have a C module."""

OUT_OF_DATE: set[str] = set()
"""The folders whose modules are disabled because they were compiled from other sources."""

_HERE = Path(__file__).resolve().parent


def find_compiled(folder: str) -> ModuleType | None:
    """Return the module `_native` of a folder of this package; None if it doesn't exist or is out of date.

    Args:
        folder: name of the folder, such as "_imaging".
    """
    if os.environ.get("DALI_PROXY_NATIVE") == "0":
        return None
    try:
        module = importlib.import_module(f"{__package__}.{folder}._native")
    except ImportError:
        return None
    if not all(path.exists() for path in (_HERE.parents[1] / "setup.py", _HERE / folder / "_native.c")):
        return module  # an installed package, not a checkout: its sources don't change
    if not hasattr(module, "sources") or module.sources() != checksum(folder):
        is_first = not OUT_OF_DATE
        OUT_OF_DATE.add(folder)
        if is_first:  # the command compiles all modules
            warnings.warn(
                f"dali_proxy.pipeline.{folder}._native was compiled from other sources than this checkout has, so "
                f"slower Python code takes its place. Run in {_HERE.parents[1]}: {COMPILE}",
                RuntimeWarning,
                stacklevel=2,
            )
        return None
    return module


def checksum(folder: str) -> int:
    """Return the checksum of the sources of a folder's module; `setup.py` writes it into the module."""
    value = 0
    for path in [_HERE / folder / "_native.c", *sorted((_HERE / folder).rglob("*.h")), *sorted(_HERE.glob("*.h"))]:
        value = zlib.crc32(path.read_bytes(), value)
    return value
