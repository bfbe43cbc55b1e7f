"""Notices a file whose end is missing: FFmpeg says nothing then, and gives what there is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pipeline.errors import DecodeError

__all__ = ["whole"]

_DURATION = re.compile(r"(\d+):(\d+):(\d+(?:\.\d+)?)")


def whole(packets: Iterator[Any], stream: Any) -> Iterator[Any]:
    """Give the packets of a video on.

    Args:
        packets: of the stream, all of them.
        stream: of PyAV, as it was when the file was opened.

    Raises:
        DecodeError: at the end: the last packet isn't whole, or the file's header tells of more.
    """
    told = sum(1 for entry in stream.index_entries if entry.size)  # of some containers all frames, of others a few
    count, latest, longest, last = 0, 0, 0, None
    for packet in packets:
        if packet.size:
            count += 1
            last = packet
            if packet.pts is not None:
                longest = max(longest, packet.pts - latest, packet.duration or 0)
                latest = max(latest, packet.pts)
        yield packet
    if last is not None and last.is_corrupt:
        raise DecodeError(f"it is truncated within the data of its frame {count - 1}")
    if count < told and stream.container.format.name != "avi":  # which lists frames that have no data, too
        raise DecodeError(f"it is truncated: its header declares {told} frames, but there are {count}")
    duration = _DURATION.fullmatch(stream.metadata.get("DURATION", ""))
    if duration and stream.time_base:
        hours, minutes, seconds = map(float, duration.groups())
        lasts, shown = 3600 * hours + 60 * minutes + seconds, float((latest + 2 * longest) * stream.time_base)
        if shown < lasts:
            raise DecodeError(
                f"it is truncated: its header declares {lasts:.3f} seconds, but its last frame is shown at "
                f"{float(latest * stream.time_base):.3f}"
            )
