"""`CacheOptions`: what users say about a cache."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dali_proxy.pipeline._listing import did_you_mean
from dali_proxy.pipeline._size_limit import as_bytes
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError

_DISK = 64 << 30


@dataclass(frozen=True)
class CacheOptions:
    """The sizes of a cache.

    Attributes:
        memory: bytes of memory; 0 for no cache.
        folder: folder of files on the local disk; empty for none.
        disk: bytes of these files.
    """

    memory: int = 0
    folder: str = ""
    disk: int = _DISK

    @classmethod
    def from_argument(cls, value: Any, subject: str) -> CacheOptions:
        """Return the options that a user wrote: a number of bytes such as "8GB", or a dict with these attributes.

        Args:
            value: the argument; None for no cache.
            subject: its name, for messages.

        Raises:
            ArgumentValueError: a size isn't a number of bytes, or the folder needs memory, too.
            ArgumentTypeError: a key is unknown, or the folder isn't a path.

        Example:
            >>> CacheOptions.from_argument({"memory": "1MB", "folder": "/data", "disk": "1GB"}, "cache")
            CacheOptions(memory=1048576, folder='/data', disk=1073741824)
        """
        if not isinstance(value, Mapping):
            return cls(as_bytes(value or 0, subject))
        unknown = sorted(set(map(str, value)) - set(asdict(cls())))
        if unknown:
            hint = did_you_mean(unknown[0], tuple(asdict(cls())))
            raise ArgumentTypeError(f'{subject} has the keys "memory", "folder" and "disk", not {unknown[0]!r}{hint}')
        folder = value.get("folder", "")
        if not isinstance(folder, str | os.PathLike):
            raise ArgumentTypeError(f"{subject}: folder must be a path, not {type(folder).__name__}")
        sizes = {name: as_bytes(value.get(name, default), f"{subject}: {name}") for name, default in _SIZES.items()}
        path = os.path.abspath(os.fspath(folder)) if folder else ""
        if path and not sizes["memory"]:
            raise ArgumentValueError(f'{subject}: a folder needs memory, too, such as "memory": "1GB"')
        return cls(sizes["memory"], path, sizes["disk"])

    def plain(self) -> int | dict[str, int | str]:
        """Return the shortest argument with this meaning, of types that every format has."""
        return asdict(self) if self.folder else self.memory


_SIZES = {"memory": 0, "disk": _DISK}
