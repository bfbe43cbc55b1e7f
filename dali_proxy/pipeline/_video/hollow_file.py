"""A file without the data of its packets, to index a video without reading it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from dali_proxy.pipeline._remote.position_stream import PositionStream

_PIECE = 1 << 12  # bytes to read at a time


class HollowFile(PositionStream):
    """A stream over a file, in which ranges read as zeros, without reading them from the file.

    FFmpeg asks for much more than it needs, and for the same bytes again after a seek. The stream returns fewer bytes,
    and keeps what it has read.
    """

    def __init__(self, read: Callable[[int, int], bytes], size: int) -> None:
        super().__init__(size)
        self._read = read
        self._begins = self._ends = np.empty(0, np.int64)
        self._pieces: dict[int, bytes] = {}

    def leave_out(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Read ranges, each given by position and size, as zeros from now on."""
        table = np.array(sorted(ranges), np.int64).reshape(-1, 2)
        begins, ends = table[:, 0], np.maximum.accumulate(table.sum(axis=1))
        apart = begins[1:] > ends[:-1]  # adjacent ranges become one
        self._begins = np.append(begins[:1], begins[1:][apart])
        self._ends = np.append(ends[:-1][apart], ends[-1:])

    def pread(self, count: int, position: int) -> bytes:
        end = min(position + count, self._size)
        within = int(np.searchsorted(self._begins, position, "right")) - 1
        if within >= 0 and position < self._ends[within]:
            return bytes(max(min(end, int(self._ends[within])) - position, 0))
        if within + 1 < len(self._begins):
            end = min(end, int(self._begins[within + 1]))
        number, offset = divmod(position, _PIECE)
        piece = self._pieces.get(number)
        if piece is None:
            piece = self._pieces[number] = self._read(_PIECE, number * _PIECE)
        return piece[offset : offset + max(end - position, 0)]
