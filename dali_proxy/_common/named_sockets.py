"""Sockets with names, in a folder that only this user can reach: any process of the user finds a server by its name."""

from __future__ import annotations

import fcntl
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from dali_proxy.errors import ProxyError
from dali_proxy.pipeline.errors import ArgumentValueError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def check_name(name: object) -> str:
    """Return the name of a server.

    Raises:
        ArgumentValueError: it isn't a valid name.
    """
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise ArgumentValueError(
            "the name of a server must be 1 to 64 letters, digits, dots, hyphens and underscores, and begin with a "
            f"letter or a digit; not {name!r}"
        )
    return name


def named_socket(name: str) -> str:
    """Return the path of the socket of a named server, which may not exist. Its folder exists.

    The folder is `dali-proxy` in `XDG_RUNTIME_DIR`; without that variable, one in the temporary folder.

    Raises:
        ArgumentValueError: the name isn't valid.
        ProxyError: the folder can't be created, or other users may have created it or may write to it.
    """
    return os.path.join(_folder(), check_name(name))


def _folder() -> str:
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isdir(runtime):
        path = os.path.join(os.path.abspath(runtime), "dali-proxy")
    else:
        path = os.path.join(os.path.abspath(tempfile.gettempdir()), f"dali-proxy-uid{os.getuid()}")
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        found = os.lstat(path)
    except OSError as error:
        raise ProxyError(f"the folder for the names of servers, {path}, can't be used: {error.strerror}") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise ProxyError(
            f"the folder for the names of servers, {path}, belongs to another user or isn't a folder: set "
            "XDG_RUNTIME_DIR to a folder of yours"
        )
    if found.st_mode & 0o077:
        raise ProxyError(f"other users may open the folder for the names of servers, {path}: chmod 700 it")
    return path


@contextmanager
def locked_folder(path: str) -> Iterator[None]:
    """Let only one process at a time create a socket in the folder of `path`. A dead process holds no lock."""
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(folder, fcntl.LOCK_UN)  # also for forked children, which inherited it
    finally:
        os.close(folder)
