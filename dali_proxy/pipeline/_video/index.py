"""The index of a video: its frames, and those where decoding can begin."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline.errors import DecodeError

_Times = npt.NDArray[np.int64]


@dataclass(frozen=True)
class FrameIndex:
    """The frames of a video in presentation order.

    Frames are identified by their time stamps, never by counting after a seek, so that a frame is never confused with
    its neighbor.

    Attributes:
        times: time stamps of the frames, ascending, in units of `time_base`.
        keys: numbers of the frames where decoding may begin, ascending: key frames, and the first frame shown after a
            key frame that an edit list hides.
        time_base: length of a unit in seconds.
        seekable: whether time stamps identify frames. If not, frames are counted from the start of the video.
    """

    times: _Times
    keys: npt.NDArray[np.int64]
    time_base: Fraction
    seekable: bool = True

    def __len__(self) -> int:
        return len(self.times)

    @property
    def seconds(self) -> npt.NDArray[np.float64]:
        """Presentation times of the frames."""
        return self.times * self.time_base.numerator / self.time_base.denominator

    def number(self, time: int | None, likely: int = 0) -> int | None:
        """Return the number of the frame with a time stamp, or None.

        Args:
            time: the time stamp.
            likely: number to check first, which is faster than a search.
        """
        if time is None:
            return None
        if likely < len(self.times) and self.times[likely] == time:
            return likely
        found = int(np.searchsorted(self.times, time))
        return found if found < len(self.times) and self.times[found] == time else None

    def key_up_to(self, frame: int) -> int:
        """Return the last frame up to `frame` where decoding may begin."""
        return int(self.keys[self.key_before(frame)])

    def key_before(self, frame: int) -> int:
        """Return the position in `keys` of the last frame up to `frame` where decoding may begin."""
        return max(0, int(np.searchsorted(self.keys, frame, side="right")) - 1)


def index_packets(packets: Iterable[Any], time_base: Fraction, may_be_decode_order: bool) -> FrameIndex | None:
    """Return the index of a video from its packets, without decoding; None if their time stamps don't suffice.

    Args:
        packets: all packets, in order.
        time_base: unit of their time stamps in seconds.
        may_be_decode_order: whether the codec reorders frames and the container may store time stamps in decode order.

    Raises:
        DecodeError: the video has no packets, or no key frame.
    """
    times: list[int] = []
    keys: list[int] = []
    count, seen_key, hidden, reordered = 0, False, False, not may_be_decode_order
    first: int | None = None  # earliest time stamp after a hidden key frame
    for packet in packets:
        if not packet.size:
            continue
        if packet.is_keyframe:
            seen_key = True
            if first is not None:
                keys.append(first)
                first = None
            hidden = packet.is_discard
        if packet.is_discard:  # an edit list hides it; other frames refer to it
            continue
        count += 1
        if not seen_key:  # frames before the first key frame can't be decoded
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
        raise DecodeError("it has no frames" if not count else "it has no key frame where decoding could begin")
    if not reordered:
        return None
    ordered = np.unique(np.array(times, np.int64))
    if len(ordered) != len(times):
        return None
    return FrameIndex(ordered, np.searchsorted(ordered, np.unique(np.array(keys, np.int64))), time_base)


def count_frames(count: int, rate: Fraction) -> FrameIndex:
    """Return the index of a video with `count` frames whose time stamps don't identify them."""
    return FrameIndex(np.arange(count), np.zeros(1, np.int64), 1 / rate, seekable=False)
