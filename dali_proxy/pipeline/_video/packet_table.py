"""The packets of a video in a file, for reading exactly the bytes of a group of pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._video.index import FrameIndex
from dali_proxy.pipeline._video.missing import require_av

_AT_ONCE = 1 << 20  # bytes to read with one call
_GAP = 1 << 14  # bytes between packets, of sound for example, that are read and thrown away

_Numbers = npt.NDArray[np.int64]
Read = Callable[[int, int], bytes]
"""Returns a number of bytes from a position on."""


@dataclass(frozen=True)
class PacketTable:
    """The packets of a video, in the order in which they are decoded.

    Attributes:
        positions: where the data of each packet begins in the file.
        sizes: their sizes.
        shown: presentation time stamps.
        decoded: decoding time stamps.
        keys: whether each is a key frame.
        order: position in the table of each frame, by its number.
        ends: for each frame, the end of the packets that it and all earlier frames need.
    """

    positions: _Numbers
    sizes: _Numbers
    shown: _Numbers
    decoded: _Numbers
    keys: npt.NDArray[np.bool_]
    order: _Numbers
    ends: _Numbers

    @classmethod
    def from_packets(cls, packets: Iterable[Any], index: FrameIndex, read: Read) -> PacketTable | None:
        """Return the table of an indexed video; None if packets aren't parts of the file as it is.

        Args:
            packets: rows of `row_of`.
            index: index of the video.
            read: reads the file.
        """
        rows = list(packets)
        if not index.seekable or len(rows) != len(index) or any(row is None for row in rows):
            return None
        table = np.array([row[:5] for row in rows], np.int64)
        positions, sizes, shown, decoded, keys = np.ascontiguousarray(table.T)
        order = np.argsort(shown, kind="stable")
        if not np.array_equal(shown[order], index.times):
            return None
        if read(min(rows[0][1], _PROBE), rows[0][0]) != rows[0][5]:
            return None
        return cls(positions, sizes, shown, decoded, keys.astype(bool), order, np.maximum.accumulate(order) + 1)

    def start(self, frame: int) -> int | None:
        """Return the packet where decoding begins for a frame at which it may begin; None if that isn't known."""
        packet = int(self.order[frame])
        return packet if self.keys[packet] else None

    def packets(self, start: int, frame: int, read: Read, time_base: Any) -> Iterator[Any]:
        """Yield the packets from a position on that the frames up to `frame` need, as `av.Packet`s."""
        av, end = require_av(), int(self.ends[frame])
        while start < end:
            ends = self.positions[start:end] + self.sizes[start:end]
            gaps = self.positions[start + 1 : end] - ends[:-1]
            apart = np.flatnonzero((gaps < 0) | (gaps > _GAP) | (ends[1:] - self.positions[start] > _AT_ONCE))
            stop = start + int(apart[0]) + 1 if len(apart) else end
            first = int(self.positions[start])
            content = read(int(ends[stop - 1 - start]) - first, first)
            for number in range(start, stop):
                offset, size = int(self.positions[number]) - first, int(self.sizes[number])
                packet = av.Packet(size)  # followed by zeros, which decoders read, unlike a packet of given bytes
                packet.update(content[offset : offset + size])
                packet.pts, packet.dts = int(self.shown[number]), int(self.decoded[number])
                packet.time_base = time_base
                packet.is_keyframe = bool(self.keys[number])
                yield packet
            start = stop


_PROBE = 64  # bytes of a packet to compare with the file


def row_of(packet: Any) -> tuple[int, int, int, int, bool, bytes] | None:
    """Return position, size, times and beginning of a packet; None if it isn't a part of the file as it is."""
    if packet.pos is None or packet.pos < 0 or packet.pts is None or packet.dts is None:
        return None
    if packet.is_discard or next(iter(packet.iter_sidedata()), None) is not None:
        return None
    return packet.pos, packet.size, packet.pts, packet.dts, packet.is_keyframe, bytes(memoryview(packet)[:_PROBE])
