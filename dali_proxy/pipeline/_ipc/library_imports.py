"""Keeps the modules of the user from hiding modules of Python's library, in the processes that this project starts."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import FrameType, ModuleType

_LIBRARY = [
    *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib")),
    *(path for path in sys.path if path.endswith("lib-dynload")),
]
_PACKAGES = ("/site-packages/", "/dist-packages/")
_FOLDERS = (
    f"{sysconfig.get_path('stdlib')}/",
    *(f"{Path(__file__).parents[3] / name}/" for name in ("pipeline", "dali_proxy")),
)
_LOADERS = (
    "pickle",
    "cloudpickle",
    "dali_proxy.pipeline._ipc.pickling",
    "importlib",
)  # import what the user's data names


class _LibraryFinder(MetaPathFinder):
    """Finds modules of Python's library for Python, for installed packages and for us, whatever `sys.path` has first.

    The user's own code finds what `sys.path` has first, even if its name is one of Python's library.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in sys.stdlib_module_names or not _is_of_library(sys._getframe(1)):
            return None
        return PathFinder.find_spec(name, _LIBRARY, target)


def protect_library_imports() -> None:
    """Install the finder. Call this before the user's folders are added to `sys.path`."""
    sys.meta_path.insert(0, _LibraryFinder())


def _is_of_library(frame: FrameType | None) -> bool:
    """Return whether an import that is being done belongs to a library."""
    while frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    if frame is None or str(frame.f_globals.get("__name__", "")).startswith(_LOADERS):
        return False
    file = frame.f_code.co_filename
    return file.startswith(_FOLDERS) or any(folder in file for folder in _PACKAGES)
