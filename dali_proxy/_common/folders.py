"""Private folders for the sockets of servers."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from dali_proxy.pipeline._ipc.connecting import short_path
from dali_proxy.pipeline._ipc.signals import deferred_signals

_PREFIX = "dali-proxy-"
_OURS = re.compile(_PREFIX + "[0-9a-f]{16}")  # a user's folder may begin with the same name
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def new_folder() -> str:
    """Return the path of a folder that doesn't exist yet."""
    return os.path.join(_parent_folder(), f"{_PREFIX}{secrets.token_hex(8)}")


@contextmanager
def make_folder(path: str) -> Iterator[None]:
    """Create a folder that only this user can read and write, whatever the umask.

    Inside the block, which must create the socket, no process takes the folder for a dead server's: a lock protects it,
    which the system releases when this process ends. The folder remains after the block.
    """
    with ExitStack() as end:
        with deferred_signals:
            folder = _make_locked(path)
            end.callback(_unlock, folder)
        yield


def _make_locked(path: str) -> int:
    os.mkdir(path, mode=0o500)
    os.chmod(path, 0o500)
    folder = os.open(path, _OPEN)
    try:
        with suppress(OSError):  # network file systems may have no locks
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.chmod(path, 0o700)  # from now on, other processes look at the lock
    except BaseException:
        os.close(folder)
        raise
    return folder


def _unlock(folder: int) -> None:
    with suppress(OSError):
        fcntl.flock(folder, fcntl.LOCK_UN)  # also for forked children, which inherited it
    os.close(folder)


def remove_folder(path: str | Path) -> None:
    """Remove a folder and its contents, even if a restrictive umask denies access to a new folder."""
    with suppress(OSError):
        os.chmod(path, 0o700)
    with suppress(OSError):
        os.rmdir(path)  # the sockets are usually gone; `rmtree` needs a descriptor, and there may be none
        return
    shutil.rmtree(path, ignore_errors=True)


def remove_dead_folders() -> None:
    """Remove this user's folders of servers that ended without removing them, for example after SIGKILL.

    The system refuses connections to a socket without a listener. A folder without a socket is locked while its server
    starts. This also works for processes of other containers, and doesn't depend on clocks.
    """
    for path in _folders():
        with suppress(OSError):  # it was removed, isn't a folder, or another user's
            folder = os.open(path, _OPEN)
            try:
                if _is_dead(path, folder):
                    remove_folder(path)
            finally:
                os.close(folder)


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


def _is_dead(path: Path, folder: int) -> bool:
    status = os.fstat(folder)
    if status.st_uid != os.getuid() or not status.st_mode & stat.S_IWUSR:  # not locked yet
        return False
    is_unlocked = True
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # there are no locks
        is_unlocked = False
    dead = is_refused(path / "socket") if (path / "socket").exists() else is_unlocked
    return dead and os.path.samestat(status, path.lstat())  # not if its server was started again
