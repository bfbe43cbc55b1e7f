"""The user's modules that a server has imported: it imports each once, even if its file changes later."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

_INSTALLED = tuple(
    {f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    | {f"{Path(__file__).resolve().parents[1]}{os.sep}"}
)

_seen: dict[str, tuple[int, int]] = {}  # files of modules, with the time of the last change and the size


def imported_files() -> tuple[tuple[str, int, int], ...]:
    """Return the files of the user's modules, with the times of their last change in ns, and their sizes.

    These are those of the first call that sees the module, so call this after each import.
    """
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file not in _seen and not file.startswith(_INSTALLED):
            _seen[file] = _state(file)
    return tuple((file, *state) for file, state in _seen.items())


def changed_files(files: tuple[tuple[str, int, int], ...]) -> list[str]:
    """Return the files that aren't any more as `imported_files` of another process has found them."""
    return [file for file, *state in files if _state(file) != tuple(state)]


def _state(file: str) -> tuple[int, int]:
    try:
        found = os.stat(file)
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size
