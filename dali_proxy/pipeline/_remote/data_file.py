"""Files that are read in pieces, on the local disk or behind a URL."""

from __future__ import annotations

import errno
import io
import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import IO

from dali_proxy.pipeline._closing import Closing
from dali_proxy.pipeline._concurrency.finalizers import THREAD_PREFIX
from dali_proxy.pipeline._concurrency.locks import Level, new_lock
from dali_proxy.pipeline._concurrency.thread_pool import ThreadPool
from dali_proxy.pipeline._remote.position_stream import PositionStream
from dali_proxy.pipeline._remote.reading import read_url, size_of_url
from dali_proxy.pipeline._remote.request_limit import MOST_REQUESTS
from dali_proxy.pipeline._remote.urls import is_url, local_path
from dali_proxy.pipeline.errors import BuildError

_BLOCK = 4 << 20
_HELD = 256 << 20


class Blocks:
    """Blocks of remote files: the most recently used ones stay in memory, up to a limit.

    Records are smaller than what a request should transfer. Threads that need the same block wait for one request.
    """

    def __init__(self, limit: int = _HELD) -> None:
        self._most = max(1, limit // _BLOCK)
        self._lock = new_lock(Level.LEAF, "remote blocks")
        self._held: OrderedDict[tuple[str, int], Future[bytes]] = OrderedDict()

    def read(self, url: str, size: int, offset: int, count: int) -> bytes:
        """Return bytes of a file, fewer if it ends before."""
        end = min(offset + count, size)
        parts = []
        for number in range(offset // _BLOCK, -(-end // _BLOCK)):
            begin = number * _BLOCK
            block = self._block(url, number, min(begin + _BLOCK, size))
            parts.append(block[max(offset - begin, 0) : end - begin])
        return b"".join(parts)

    def _block(self, url: str, number: int, end: int) -> bytes:
        key = url, number
        with self._lock:
            held = self._held.get(key)
            wanted: Future[bytes] = Future() if held is None else held
            self._held[key] = wanted
            self._held.move_to_end(key)
            while len(self._held) > self._most:
                self._held.popitem(last=False)
        if held is None:
            try:
                wanted.set_result(read_url(url, number * _BLOCK, end))
            except BaseException as error:
                with self._lock:
                    if self._held.get(key) is wanted:
                        del self._held[key]
                wanted.set_exception(error)
                raise
        return wanted.result()


class DataFile(Closing):
    """A file that is open for reading at any position, by many threads at once.

    Args:
        path: local path or URL.
        blocks: blocks through which a remote file is read; None to request exactly what is read.

    Raises:
        OSError: a local file can't be opened, or isn't a regular file.
        PipelineError: the URL can't be read.

    Attributes:
        path: path of the file.
        size: its size in bytes.
        remote: whether it is behind a URL.
        descriptor: file descriptor of a local file, until it is closed.
        pread: function that returns a number of bytes (the first argument) from a position on (the second one), or
            fewer if the file ends before.

    Example:
        >>> file = DataFile(__file__)
        >>> file.pread(3, 0)
        b'\"\"\"'
        >>> file.close()
    """

    pread: Callable[[int, int], bytes]

    def __init__(self, path: str, blocks: Blocks | None = None) -> None:
        self.path = path
        self.remote = is_url(path)
        self.descriptor: int | None = None
        if self.remote:
            self.size = size_of_url(path)
            self.pread = self._exactly if blocks is None else partial(_swapped, blocks.read, path, self.size)
        else:
            self.descriptor = os.open(local_path(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            status = os.fstat(self.descriptor)
            if not stat.S_ISREG(status.st_mode):
                self.close()
                raise OSError(errno.EINVAL, "it isn't a regular file", path)
            if not status.st_size and os.pread(self.descriptor, 1, 0):
                self.close()
                raise OSError(errno.EINVAL, "the file system doesn't know its size: copy it to another one", path)
            self.size = status.st_size
            self.pread = partial(os.pread, self.descriptor)

    def pread_into(self, target: memoryview, offset: int) -> int:
        """Read into memory from a position on. Return the number of bytes, which may be smaller."""
        if self.descriptor is not None:
            return os.preadv(self.descriptor, [target], offset)
        content = self.pread(len(target), offset)
        target[: len(content)] = content
        return len(content)

    def stream(self, blocks: Blocks | None = None) -> IO[bytes]:
        """Return a stream over the file, which stays valid while the file is open, through its blocks or others."""
        pread = self.pread if blocks is None else partial(_swapped, blocks.read, self.path, self.size)
        return io.BufferedReader(_Stream(pread, self.size), 1 << 16)

    def close(self) -> None:
        """Close the file."""
        descriptor, self.descriptor = self.descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _exactly(self, count: int, offset: int) -> bytes:
        end = min(offset + count, self.size)
        return read_url(self.path, offset, end) if offset < end else b""


def _swapped(read: Callable[[str, int, int, int], bytes], url: str, size: int, count: int, offset: int) -> bytes:
    return read(url, size, offset, count)


def open_files(paths: Sequence[str], blocks: Blocks | None) -> list[DataFile]:
    """Open files as `DataFile`s. The servers of URLs are asked for many files at once.

    Raises:
        BuildError: a file can't be opened; the message names it.
    """
    found: list[DataFile | None] = [None] * len(paths)

    def open_one(number: int) -> None:
        found[number] = DataFile(paths[number], blocks)

    if any(map(is_url, paths)):
        with ThreadPool(min(len(paths), MOST_REQUESTS), f"{THREAD_PREFIX}remote") as pool:
            errors = pool.run(open_one, len(paths))
    else:
        errors = ThreadPool.run_here(open_one, len(paths))
    files = [file for file in found if file is not None]
    if errors:
        for file in files:
            file.close()
        number, error = errors[0]
        if not isinstance(error, OSError):
            raise error
        raise BuildError(f"can't read the file {paths[number]!r}: {error.strerror or error}") from error
    return files


def open_text(path: str, *, encoding: str = "utf-8", errors: str | None = None, newline: str | None = None) -> IO[str]:
    """Open a local file as text, or read a whole URL. The arguments are those of the function `open`.

    Raises:
        OSError: a local file can't be opened.
        PipelineError: the URL can't be read.
    """
    if is_url(path):
        return io.TextIOWrapper(io.BytesIO(read_url(path)), encoding, errors, newline)
    return open(local_path(path), encoding=encoding, errors=errors, newline=newline)


class _Stream(PositionStream):
    """A stream over a `DataFile`, given its function `pread` and its size."""

    def __init__(self, pread: Callable[[int, int], bytes], size: int) -> None:
        super().__init__(size)
        self._pread = pread

    def pread(self, count: int, position: int) -> bytes:
        return self._pread(count, position)
