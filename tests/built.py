"""Results of compilers, in files that the processes of all test runs share: the same code is built once."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import NamedTemporaryFile

from tests.environment import ROOT

__all__ = ["built"]

_FOLDER = ROOT / "build" / "tests"


def built(key: object, suffix: str, build: Callable[[Path], object]) -> Path:
    """Return the file that `build` writes, or that it wrote for the same key before.

    Args:
        key: all that the content depends on: code, options and the compiler's version. Its `repr` must be unique.
        suffix: suffix of the file.
        build: writes a file. If it raises, there is no file.
    """
    path = _FOLDER / (hashlib.sha256(repr(key).encode()).hexdigest()[:32] + suffix)
    if not path.exists():
        _FOLDER.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=_FOLDER, suffix=suffix, delete=False) as file:
            pass
        new = Path(file.name)
        try:
            build(new)
            os.replace(new, path)  # another process may have built it, too
        finally:
            new.unlink(missing_ok=True)
    return path
