"""Files that jobs and rivals write once, below the temporary directory of this machine."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path


def write_once(name: str, write: Callable[[Path], None]) -> Path:
    """Return the folder of a name. If it doesn't exist, create it, and let ``write`` fill it."""
    folder = Path(tempfile.gettempdir()) / f"dali-proxy-benchmark-{os.getuid()}" / name
    if folder.is_dir():
        return folder
    folder.parent.mkdir(mode=0o700, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        write(unfinished)
        unfinished.rename(folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        if not folder.is_dir():  # else another process has created it in the meantime
            raise
    return folder
