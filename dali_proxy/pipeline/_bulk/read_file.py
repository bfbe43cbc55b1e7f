"""Reads a whole file into an array."""

from __future__ import annotations

import os
import stat
from typing import IO

import numpy as np

from dali_proxy.pipeline._arrays import Bytes
from dali_proxy.pipeline._remote.reading import read_url
from dali_proxy.pipeline._remote.urls import is_url, local_path
from dali_proxy.pipeline._size_limit import check_size
from dali_proxy.pipeline.errors import PipelineError

_BLOCK = 1 << 20  # bytes to read at a time if the size isn't known


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # otherwise a named pipe waits for a writer


def read_file(path: str) -> Bytes:
    """Return the contents of a local file, or of a URL.

    Raises:
        PipelineError: the file can't be read; the message names it.
    """
    if not path:
        raise PipelineError("the path of the file is empty")
    if "://" in path:
        if is_url(path):
            return np.frombuffer(read_url(path), np.uint8)
        path = local_path(path)
    try:
        with open(path, "rb", buffering=0, opener=_open) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise PipelineError(f"can't read the file {path!r}: it isn't a regular file")
            if not status.st_size:  # or the system doesn't know the size, as in /proc
                return _read_to_end(file, path)
            check_size(f"the file {path!r}", status.st_size)
            content = np.empty(status.st_size, np.uint8)
            count = 0
            while count < content.size:
                read = file.readinto(content[count:].data)
                if not read:
                    raise PipelineError(f"the file {path!r} was truncated while it was read")
                count += read
    except (OSError, ValueError, MemoryError) as error:  # ValueError: a path with a zero byte
        where = "" if os.path.isabs(path) else f" in the directory {os.path.realpath('/proc/self/cwd')!r}"
        reason = getattr(error, "strerror", None) or error
        raise PipelineError(f"can't read the file {path!r}{where}: {reason}") from error
    return content


def _read_to_end(file: IO[bytes], path: str) -> Bytes:
    content = bytearray()
    while part := file.read(_BLOCK):
        content += part
        check_size(f"the file {path!r}", len(content))
    return np.frombuffer(content, np.uint8)
