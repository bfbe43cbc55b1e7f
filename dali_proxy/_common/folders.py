"""Private folders for the sockets of servers."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from pipeline._ipc.connecting import short_path

__all__ = ["is_refused", "make_folder", "new_folder", "remove_dead_folders", "remove_folder", "server_sockets"]

_PREFIX = "dali-proxy-"
_OURS = re.compile(_PREFIX + "[0-9a-f]{16}")  # a user's folder may begin with the same name
_STARTING = 600.0  # seconds after which a folder without a socket can't belong to a starting server


def new_folder() -> str:
    """Return the path of a folder that doesn't exist yet."""
    return os.path.join(_parent_folder(), f"{_PREFIX}{secrets.token_hex(8)}")


def make_folder(path: str) -> None:
    """Create a folder that only this user can read and write, whatever the umask."""
    os.mkdir(path, mode=0o700)
    os.chmod(path, 0o700)


def remove_folder(path: str | Path) -> None:
    """Remove a folder and its contents, even if a restrictive umask denies access to a new folder."""
    with suppress(OSError):
        os.chmod(path, 0o700)
    shutil.rmtree(path, ignore_errors=True)


def remove_dead_folders() -> None:
    """Remove this user's folders of servers that ended without removing them, for example after SIGKILL.

    The socket shows this: the system refuses connections to a socket without a listener. This also works for processes
    of other containers.
    """
    for folder in _folders():
        if _is_dead(folder):
            remove_folder(folder)


def server_sockets() -> list[str]:
    """Return the paths of the sockets of servers in the temporary folder."""
    return [str(folder / "socket") for folder in _folders()]


def _folders() -> list[Path]:
    with os.scandir(_parent_folder()) as entries:
        return [Path(entry.path) for entry in entries if _OURS.fullmatch(entry.name)]


def is_refused(path: str | Path) -> bool:
    """Return whether a path is a socket without a listener."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            with short_path(str(path)) as short:
                probe.connect(short)
        except ConnectionRefusedError:
            return True
        except OSError:  # there is no socket, or its server is busy
            return False
    return False


def _parent_folder() -> str:
    return os.path.abspath(tempfile.gettempdir())  # TMPDIR may be ".", which is another folder after a chdir


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
