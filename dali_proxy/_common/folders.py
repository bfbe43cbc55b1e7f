"""The private folders that sockets lie in."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
import tempfile
import time
from pathlib import Path

__all__ = ["is_refused", "new_folder", "remove_dead_folders"]

_PREFIX = "dali-proxy-"
_OURS = re.compile(_PREFIX + "[0-9a-f]{16}")  # a folder of the user's may well begin with our name
_STARTING = 600.0  # seconds after which a folder with no socket is none of a server that is starting


def new_folder() -> str:
    """Return the path of a folder that doesn't exist yet."""
    return os.path.join(tempfile.gettempdir(), f"{_PREFIX}{secrets.token_hex(8)}")


def remove_dead_folders() -> None:
    """Remove this user's folders of servers that are gone and could not do so, killed by a signal for example.

    The socket tells: the system refuses connections to one that nobody listens at, whatever the process that made it
    was called and in whichever container it ran.
    """
    with os.scandir(tempfile.gettempdir()) as entries:
        found = [Path(entry.path) for entry in entries if _OURS.fullmatch(entry.name)]
    for folder in found:
        if _is_dead(folder):
            shutil.rmtree(folder, ignore_errors=True)


def is_refused(path: str | Path) -> bool:
    """Whether there is a socket at a path that nobody listens at."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:  # no socket, or one whose server is busy
            return False
    return False


def _is_dead(folder: Path) -> bool:
    try:
        status = folder.lstat()
    except FileNotFoundError:
        return False
    if status.st_uid != os.getuid() or not folder.is_dir():
        return False
    if (folder / "socket").exists():
        return is_refused(folder / "socket")
    return time.time() - status.st_mtime > _STARTING
