"""Names of the content of local files, made of their status: to find a value, its file needn't be read."""

from __future__ import annotations

import ctypes
import os
import struct
import time

from dali_proxy.pipeline._bulk.paths import PathTable
from dali_proxy.pipeline._remote.urls import is_url

# Seconds for which a file must be unchanged. A file that changes again within a tick of its clock keeps its times, and
# so does one that is written through a mapping, until the system writes its pages back, which takes half a minute.
_AGE = 60.0
# File systems of this machine that change `st_ctime` with each change of a file: ext4, XFS, Btrfs, ZFS, F2FS, bcachefs
# and overlayfs. Network file systems know it late, and tmpfs misses writes through a mapping.
_KNOWN = frozenset([0xEF53, 0x58465342, 0x9123683E, 0x2FC12FC1, 0xF2F52010, 0xCA451A4E, 0x794C7630])
_STATUS = struct.Struct("=QQQqq")
_libc = ctypes.CDLL(None)


def file_names(part: bytes, paths: PathTable) -> list[bytes | None]:
    """Return a name for what operators, described by `part`, compute from each file; None if only its bytes can tell.

    A name consists of the description of the operators, and the device, inode, size and times of a file. `st_ctime`,
    which programs can't set, changes with each change of the content, the times, the name or the links. As in Git,
    times that are too young prove nothing.
    """
    latest = int((_now() - _AGE) * 1e9)
    names = [_status(paths.path(sample), latest) for sample in range(len(paths))]
    return [None if name is None else part + name for name in names]


def _status(path: str, latest: int) -> bytes | None:
    if "://" in path and is_url(path):
        return None
    try:
        status = os.stat(path)
    except (OSError, ValueError):  # reading the file reports it
        return None
    if status.st_ctime_ns > latest or _file_system(path) not in _KNOWN:
        return None
    return _STATUS.pack(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _file_system(path: str) -> int:
    """Return the type of the file system of a file; 0 if it isn't known."""
    status = ctypes.create_string_buffer(256)  # a `struct statfs`, which begins with the type
    if _libc.statfs(os.fsencode(path), status):
        return 0
    return ctypes.c_long.from_buffer(status).value & 0xFFFFFFFF


_now = time.time
