"""A cache on the local disk, whose size is limited, for all processes that use the same folder."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import struct
import time
import warnings
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache, partial
from pathlib import Path

from dali_proxy.pipeline._concurrency.interrupts import pass_on_interrupt
from dali_proxy.pipeline._size_limit import size_from_environment
from dali_proxy.pipeline._trusted_folder import distrust

# A mark, the size of the content, and the checksum of its key and content. A crash of the machine may truncate a file,
# or leave zeros in it, and disks lose bits.
_HEAD = struct.Struct("<8sQI")
_MARK = b"dalicac2"
_UNFINISHED = ".tmp"
# Folders and files of the cache. All others belong to the user, who may have chosen a folder with files.
_FOLDER = re.compile("[0-9a-f]{2}")
_FILE = re.compile(rf"[0-9a-f]{{64}}(\.\d+-\d+{re.escape(_UNFINISHED)})?")
_TOUCH = 60.0  # seconds between two updates of the time when a file was used
_LOOK = 60.0  # seconds until a full cache looks for files to evict again
_KEPT = 0.9  # share of the limit that eviction leaves
_DEFAULT_LIMIT = 10 << 30
_open_privately = partial(os.open, mode=0o600)


class DiskCache:
    """Contents by key, as files of a folder. The least recently used ones are evicted.

    The cache survives restarts, and any number of processes may use it at once. A file gets its final name when it is
    complete, so no process sees a part of it. Damaged files are removed, and read again. The sum of all files never
    exceeds the limit: a process reserves the space before it writes, and a lock file orders the reservations. Content
    that doesn't fit beside the files that other processes are writing isn't stored. Errors of the disk never fail a
    read.

    Args:
        folder: folder of the cache, which is created if it is missing.
        limit: largest sum of the sizes of its files, in bytes.
        least_age: seconds after its last use for which a file isn't evicted. New content isn't stored while there is no
            room.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     cache = DiskCache(Path(folder), 1000)
        ...     cache.put("s3://bucket/key", b"content")
        ...     cache.get("s3://bucket/key"), cache.get("another")
        (b'content', None)
    """

    def __init__(self, folder: Path, limit: int, least_age: float = 0.0) -> None:
        self.folder = folder
        self.limit = limit
        self._least_age = least_age
        self._full_until = 0.0  # no file can be evicted before: listing them all takes long
        self._warned = False

    def get(self, key: str) -> bytes | None:
        """Return the content of a key, or None if the cache doesn't have it."""
        path = self._path(key)
        try:
            with open(path, "rb", buffering=0) as file:
                status = os.fstat(file.fileno())
                head, content = file.read(_HEAD.size), file.read()
            if _HEAD.unpack(head) != (_MARK, len(content), _checksum(key, content)):
                raise ValueError("damaged")
            if time.time() - status.st_mtime > _TOUCH:
                os.utime(path)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, struct.error) as error:
            pass_on_interrupt(error)
            if getattr(error, "errno", errno.EIO) == errno.EIO:  # not for too many open files, for example
                with suppress(OSError):
                    os.unlink(path)
            return None
        return content

    def put(self, key: str, content: bytes) -> bool:
        """Store the content of a key, unless there is no room for it. Return whether it is stored."""
        size = _HEAD.size + len(content)
        if size > self.limit or time.monotonic() < self._full_until:
            return False
        path = self._path(key)
        unfinished = f"{path}.{os.getpid()}-{time.monotonic_ns()}{_UNFINISHED}"
        try:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            with ExitStack() as files:
                with self._locked():
                    total = self._total()
                    if total + size > self.limit:
                        total = self._evict(int(self.limit * _KEPT) - size, size)
                        if total + size > self.limit:  # other processes are writing too much at this moment
                            self._set_total(total)
                            self._full_until = time.monotonic() + _LOOK if self._least_age else 0.0
                            return False
                    self._set_total(total + size)  # first: a process that is killed here must not lower the sum
                    stream = files.enter_context(open(unfinished, "xb", buffering=0, opener=_open_privately))
                    fcntl.flock(stream, fcntl.LOCK_EX)  # until the file has its name, or this process was killed
                    os.truncate(stream.fileno(), size)  # counts for other processes from now on
                stream.write(_HEAD.pack(_MARK, len(content), _checksum(key, content)))
                left = memoryview(content)
                while left:
                    left = left[stream.write(left) :]
                with self._locked():  # an eviction, which lists files meanwhile, could miss both names
                    os.replace(unfinished, path)
            return True
        except OSError as error:
            pass_on_interrupt(error)
            with suppress(OSError):
                os.unlink(unfinished)
            if not self._warned:
                self._warned = True
                warnings.warn(f"the cache {str(self.folder)!r} isn't used: {error}", RuntimeWarning, stacklevel=2)
            return False

    def _path(self, key: str) -> str:
        name = hashlib.sha256(key.encode(errors="surrogateescape")).hexdigest()
        return os.path.join(self.folder, name[:2], name)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        file = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(file, fcntl.LOCK_UN)  # also for forked children, which inherited it
        finally:
            os.close(file)

    def _total(self) -> int:
        """Return the sum of all sizes, as counted. It is counted anew if the counter is lost."""
        try:
            return int((self.folder / "total").read_text())
        except (OSError, ValueError):
            return self._evict(self.limit)

    def _set_total(self, total: int) -> None:
        with open(self.folder / "total", "w", opener=_open_privately) as file:
            file.write(str(total))

    def _evict(self, target: int, room: int = 0) -> int:
        """Remove the least recently used files until the sum of all sizes is at most `target`. Return the sum.

        Files that are being written stay: their space would be occupied, but not counted. If they leave no room for a
        file of `room` bytes, nothing is removed.
        """
        files: list[tuple[float, int, str]] = []
        total = 0
        for folder in self.folder.iterdir():
            if not _FOLDER.fullmatch(folder.name) or not folder.is_dir():
                continue
            with os.scandir(folder) as entries:
                for entry in filter(lambda each: _FILE.fullmatch(each.name), entries):
                    with suppress(FileNotFoundError):  # removed meanwhile
                        status = entry.stat()
                        total += status.st_size
                        unfinished = entry.name.endswith(_UNFINISHED)
                        is_old = time.time() - status.st_mtime >= self._least_age
                        if is_old if not unfinished else _is_abandoned(entry.path):
                            files.append((0.0 if unfinished else status.st_mtime, status.st_size, entry.path))
        staying = total - sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= target or staying + room > self.limit:
                break
            with suppress(FileNotFoundError):
                os.unlink(path)
            total -= size
        return total


def _checksum(key: str, content: bytes) -> int:
    return zlib.crc32(content, zlib.crc32(key.encode(errors="surrogateescape")))


def _is_abandoned(path: str) -> bool:
    """Return whether no process writes an unfinished file any more: the process was killed."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(file)
    return True


def disk_cache() -> DiskCache | None:
    """Return the cache that the environment selects: the folder DALI_PROXY_CACHE, of DALI_PROXY_CACHE_BYTES bytes.

    A folder that other users could write to isn't used.

    Raises:
        ArgumentValueError: the size isn't a number.
    """
    folder = os.environ.get("DALI_PROXY_CACHE", "")
    return _cache(folder, size_from_environment("DALI_PROXY_CACHE_BYTES", _DEFAULT_LIMIT)) if folder else None


@lru_cache(maxsize=4)
def _cache(folder: str, limit: int) -> DiskCache | None:
    path = Path(folder).absolute()
    reason = distrust(path)
    if reason:
        warnings.warn(f"the cache {folder!r} isn't used: {reason}", RuntimeWarning, stacklevel=2)
    return None if reason else DiskCache(path, limit)
