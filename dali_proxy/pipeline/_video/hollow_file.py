"""A file without the data of its packets, to index a video without reading it."""

from __future__ import annotations

import os
from collections.abc import Iterable

import numpy as np

from dali_proxy.pipeline._remote.position_stream import PositionStream


class HollowFile(PositionStream):
    """A stream over a file, in which ranges read as zeros, without reading them from the file.

    Args:
        descriptor: descriptor of the file; it must stay open.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__(os.fstat(descriptor).st_size)
        self._descriptor = descriptor
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

    def pread(self, count: int, position: int) -> bytes:
        begin, end = position, max(position, min(position + count, self._size))
        content = bytearray(end - begin)
        while begin < end:
            within = int(np.searchsorted(self._begins, begin, "right")) - 1
            if within >= 0 and begin < self._ends[within]:
                begin = int(self._ends[within])
                continue
            following = int(self._begins[within + 1]) if within + 1 < len(self._begins) else end
            part = os.pread(self._descriptor, min(following, end) - begin, begin)
            content[begin - position : begin - position + len(part)] = part
            begin += len(part)
            if not part:  # the file has become shorter
                del content[begin - position :]
                break
        return bytes(content)
