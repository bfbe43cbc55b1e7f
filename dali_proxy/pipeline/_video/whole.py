"""Detects truncated files, whose remaining frames FFmpeg returns without an error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from dali_proxy.pipeline.errors import DecodeError

_DURATION = re.compile(r"(\d+):(\d+):(\d+(?:\.\d+)?)")


def whole(packets: Iterator[Any], stream: Any) -> Iterator[Any]:
    """Yield the packets of a video unchanged, then check that the video was complete.

    Raises:
        DecodeError: at the end: the last packet is incomplete, or the file's header declares more.
    """
    declared = sum(1 for entry in stream.index_entries if entry.size)  # some containers list all frames, others a few
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
    if count < declared and stream.container.format.name != "avi":  # AVI also lists frames without data
        raise DecodeError(f"it is truncated: its header declares {declared} frames, but it contains {count}")
    duration = _DURATION.fullmatch(stream.metadata.get("DURATION", ""))
    if duration and stream.time_base:
        hours, minutes, seconds = map(float, duration.groups())
        lasts, shown = 3600 * hours + 60 * minutes + seconds, float((latest + 2 * longest) * stream.time_base)
        if shown < lasts:
            raise DecodeError(
                f"it is truncated: its header declares {lasts:.3f} seconds, but its last frame is shown at "
                f"{float(latest * stream.time_base):.3f}"
            )
