"""A stream over what is read at positions."""

from __future__ import annotations

import io
import os
from abc import abstractmethod
from typing import Any


class PositionStream(io.RawIOBase):
    """Base of seekable streams over what a subclass reads at positions."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._position = 0

    @abstractmethod
    def pread(self, count: int, position: int) -> bytes:
        """Return at most so many bytes from a position on; none only at the end."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def readinto(self, buffer: Any) -> int:
        content = self.pread(len(buffer), self._position)
        buffer[: len(content)] = content
        self._position += len(content)
        return len(content)
