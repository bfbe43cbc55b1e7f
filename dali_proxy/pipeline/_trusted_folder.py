"""Folders of caches: their files become programs or training data, so no other user may write them."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def distrust(folder: str | Path) -> str:
    """Return why the files in a folder may come from another user; an empty string if they can't.

    A missing folder is created, for this user alone. Root is trusted, and so are the members of a group that this user
    lets write to the folder.

    Example:
        >>> import tempfile
        >>> distrust(tempfile.mkdtemp())
        ''
        >>> distrust("/tmp")
        'other users may write to /tmp'
    """
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        path = Path(folder).resolve()
        found = path.stat()
        if found.st_uid not in (0, os.getuid()):
            return f"{path} belongs to another user (user ID {found.st_uid})"
        if found.st_mode & (stat.S_IWOTH if found.st_uid == os.getuid() else stat.S_IWOTH | stat.S_IWGRP):
            return f"other users may write to {path}"
        for parent in path.parents:  # a sticky one doesn't let others replace the folder
            if parent.stat().st_mode & (stat.S_IWOTH | stat.S_ISVTX) == stat.S_IWOTH:
                return f"other users may write to {parent}"
    except OSError:
        pass  # the cache can't be used at all
    return ""
