"""The files of a cache on the local disk: values that survive the end of the process."""

from __future__ import annotations

import os
import secrets
import struct
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgpack
import numpy as np

from dali_proxy.pipeline._concurrency.finalizers import THREAD_PREFIX
from dali_proxy.pipeline._concurrency.interrupts import pass_on_interrupt
from dali_proxy.pipeline._concurrency.locks import Level, new_lock
from dali_proxy.pipeline._concurrency.work_queue import WorkQueue
from dali_proxy.pipeline._remote.cache import DiskCache
from dali_proxy.pipeline._trusted_folder import distrust
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array

# Bytes that may wait to be written. More values aren't stored: the disk is slower than the decoders.
_WAITING = 64 << 20
# Seconds for which a file stays after its last use: a full cache keeps what it has.
_KEPT = 7 * 24 * 3600.0
_SEED = 8  # bytes
_LENGTH = struct.Struct("<Q")


class DiskTier:
    """Values by key, as files. Other processes of the same user may use the folder at the same time.

    The files have checksums, get their names when they are complete, and are readable for this user only. They contain
    numbers, dtypes and shapes, and no code.

    Args:
        folder: the folder, which is created if it is missing.
        limit: largest sum of the sizes of its files.

    Raises:
        ArgumentValueError: other users may write to the folder, or it can't be used.

    Attributes:
        seed: secret of the keys, the same for all processes that use the folder.
        refused: number of values that weren't stored, because the disk was full or too slow.
    """

    def __init__(self, folder: str, limit: int) -> None:
        reason = distrust(folder)
        if reason:
            raise ArgumentValueError(f"the cache folder {folder!r} can't be used: {reason}")
        self._files = DiskCache(Path(folder), limit, least_age=_KEPT)
        try:
            self.seed = _seed(Path(folder))
        except OSError as error:
            raise ArgumentValueError(f"the cache folder {folder!r} can't be used: {error}") from error
        self._lock = new_lock(Level.LEAF, "cache on disk")
        self.refused = 0
        self._waiting = 0
        self._writer = WorkQueue(f"{THREAD_PREFIX}cache-disk", 1)
        self._closed = False

    def load(self, key: bytes) -> tuple[list[Array], tuple[str, ...]] | None:
        """Return the arrays of a value and their layouts; None if the file is missing or damaged."""
        content = self._files.get(key.hex())
        return None if content is None else _decoded(content)

    def store(self, key: bytes, arrays: Sequence[Array], layouts: tuple[str, ...]) -> None:
        """Write a value soon, on another thread. The arrays are copied before this returns."""
        size = sum(array.nbytes for array in arrays)
        with self._lock:
            refused = self._closed or self._waiting + size > _WAITING
            self.refused += refused
            self._waiting += 0 if refused else size
        if refused:
            return
        self._writer.put(partial(self._write, key.hex(), _encoded(arrays, layouts), size))

    def close(self) -> None:
        """Write what waits, and end the thread."""
        with self._lock:
            self._closed = True
        self._writer.close()

    def _write(self, key: str, content: bytes, size: int) -> None:
        stored = self._files.put(key, content)
        with self._lock:
            self.refused += not stored
            self._waiting -= size


def _encoded(arrays: Sequence[Array], layouts: tuple[str, ...]) -> bytes:
    kinds = [[array.dtype.str, array.shape, layout] for array, layout in zip(arrays, layouts, strict=True)]
    head = msgpack.packb(kinds)
    return b"".join([_LENGTH.pack(len(head)), head, *[array.tobytes() for array in arrays]])


def _decoded(content: bytes) -> tuple[list[Array], tuple[str, ...]] | None:
    try:
        (length,) = _LENGTH.unpack_from(content)
        begin = _LENGTH.size + length
        arrays, layouts = [], []
        for name, shape, layout in msgpack.unpackb(content[_LENGTH.size : begin]):
            dtype = np.dtype(name)
            array: Array = np.frombuffer(content, dtype, int(np.prod(shape, dtype=np.int64)), begin).reshape(shape)
            arrays.append(array)
            layouts.append(str(layout))
            begin += array.nbytes
        return arrays, tuple(layouts)
    except Exception as error:  # noqa: BLE001 - another version has written it, as its checksum is right
        pass_on_interrupt(error)
        return None


def _seed(folder: Path) -> int:
    """Return the seed in a folder; the first process writes it."""
    path = folder / "seed"
    for _ in range(2):
        with suppress(FileNotFoundError):
            content = path.read_bytes()
            if len(content) == _SEED:
                return int.from_bytes(content, "little")
            if len(content) > _SEED:
                raise FileExistsError(f"its file {path.name!r} isn't that of a cache")
            path.unlink()  # damaged: without the seed, nothing in the folder is found
        unfinished = folder / f"seed.{os.getpid()}-{secrets.token_hex(4)}"
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(descriptor, secrets.token_bytes(_SEED))
        finally:
            os.close(descriptor)
        with suppress(FileExistsError):  # another process was faster
            os.link(unfinished, path)
        unfinished.unlink()
    return int.from_bytes(path.read_bytes(), "little")
