"""Which frames a video has, and at which of them decoding can begin."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.errors import DecodeError

__all__ = ["FrameIndex", "count_frames", "index_packets"]

_Times = npt.NDArray[np.int64]


@dataclass(frozen=True)
class FrameIndex:
    """The frames of a video in the order in which they are shown.

    Frames are told from each other by their time stamps, never by counting after a seek, so that a frame is never
    taken for its neighbour.

    Attributes:
        times: the time stamp of each frame, ascending, in units of `time_base`.
        keys: numbers of the frames at which decoding may begin, ascending: key frames, and what is shown first of those
            behind a key frame that an edit list leaves out.
        time_base: seconds of a unit.
        seekable: whether time stamps tell frames apart. If not, frames are counted from the start of the video.
    """

    times: _Times
    keys: npt.NDArray[np.int64]
    time_base: Fraction
    seekable: bool = True

    def __len__(self) -> int:
        return len(self.times)

    @property
    def seconds(self) -> npt.NDArray[np.float64]:
        """When each frame is shown."""
        return self.times * self.time_base.numerator / self.time_base.denominator

    def number(self, time: int | None, likely: int = 0) -> int | None:
        """Return the number of the frame with a time stamp, None where there is none.

        Args:
            time: the time stamp.
            likely: looked at first, as a search takes longer.
        """
        if time is None:
            return None
        if likely < len(self.times) and self.times[likely] == time:
            return likely
        found = int(np.searchsorted(self.times, time))
        return found if found < len(self.times) and self.times[found] == time else None

    def key_up_to(self, frame: int) -> int:
        """Return the last frame up to `frame` at which decoding may begin."""
        return int(self.keys[self.key_before(frame)])

    def key_before(self, frame: int) -> int:
        """Return the position in `keys` of the last frame up to `frame` at which decoding may begin."""
        return max(0, int(np.searchsorted(self.keys, frame, side="right")) - 1)


def index_packets(packets: Iterable[Any], time_base: Fraction, may_be_decode_order: bool) -> FrameIndex | None:
    """Return the index of a video from its packets, without decoding; None where they don't tell.

    Args:
        packets: all of them, in order.
        time_base: seconds of a unit of their time stamps.
        may_be_decode_order: frames are shown in another order than decoded, and the container may number them in the
            latter.

    Raises:
        DecodeError: there are no packets, or none of them is a key frame.
    """
    times: list[int] = []
    keys: list[int] = []
    count, seen_key, hidden, reordered = 0, False, False, not may_be_decode_order
    first: int | None = None  # shown first of the frames behind a key frame that isn't shown
    for packet in packets:
        if not packet.size:
            continue
        if packet.is_keyframe:
            seen_key = True
            if first is not None:
                keys.append(first)
                first = None
            hidden = packet.is_discard
        if packet.is_discard:  # an edit list leaves it out; others are made from it
            continue
        count += 1
        if not seen_key:  # what comes before can't be decoded
            continue
        if packet.pts is None:
            return None
        reordered = reordered or (bool(times) and packet.pts < times[-1])
        times.append(packet.pts)
        if packet.is_keyframe:
            keys.append(packet.pts)
        elif hidden:
            first = packet.pts if first is None else min(first, packet.pts)
    if first is not None:
        keys.append(first)
    if not times:
        raise DecodeError("it has no frames" if not count else "it has no key frame to begin decoding at")
    if not reordered:
        return None
    ordered = np.unique(np.array(times, np.int64))
    if len(ordered) != len(times):
        return None
    return FrameIndex(ordered, np.searchsorted(ordered, np.unique(np.array(keys, np.int64))), time_base)


def count_frames(count: int, rate: Fraction) -> FrameIndex:
    """Return the index of a video whose time stamps don't tell its frames apart, and which has `count` of them."""
    return FrameIndex(np.arange(count), np.zeros(1, np.int64), 1 / rate, seekable=False)
