"""A file without the data of its packets, to index a video without reading it."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable

import numpy as np


class HollowFile(io.RawIOBase):
    """A stream over a file, in which ranges read as zeros, without reading them from the file.

    Args:
        descriptor: descriptor of the file; it must stay open.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size
        self._position = 0
        self._begins = self._ends = np.empty(0, np.int64)

    def leave_out(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Read ranges as zeros from now on.

        Args:
            ranges: position and size of each.
        """
        table = np.array(sorted(ranges), np.int64).reshape(-1, 2)
        begins, ends = table[:, 0], np.maximum.accumulate(table.sum(axis=1))
        first = np.append(True, begins[1:] > ends[:-1])  # of adjacent ranges
        self._begins = begins[first]
        self._ends = ends[np.append(np.flatnonzero(first)[1:] - 1, len(ends) - 1)] if len(ends) else ends

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

    def read(self, size: int | None = -1, /) -> bytes:
        left = max(0, self._size - self._position)
        count = left if size is None or size < 0 else min(size, left)
        begin, end = self._position, self._position + count
        content = bytearray(count)
        while begin < end:
            within = int(np.searchsorted(self._begins, begin, "right")) - 1
            if within >= 0 and begin < self._ends[within]:
                begin = int(self._ends[within])
                continue
            following = int(self._begins[within + 1]) if within + 1 < len(self._begins) else end
            part = os.pread(self._descriptor, min(following, end) - begin, begin)
            content[begin - self._position : begin - self._position + len(part)] = part
            begin += len(part)
            if not part:  # the file has become shorter
                del content[begin - self._position :]
                break
        self._position += len(content)
        return bytes(content)
