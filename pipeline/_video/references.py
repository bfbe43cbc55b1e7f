"""Tells which packets needn't be decoded: those of frames that no other frame is made from."""

from __future__ import annotations

from typing import Any

__all__ = ["Unreferenced"]

_AVCC = 1  # the version that H.264's configuration begins with, where packets give the length of each of their units
_SLICES = range(1, 6)
_REFERENCE = 0x60  # bits of a unit's first byte: how much depends on it


class Unreferenced:
    """Looks into packets of H.264 in MP4 and Matroska. Of other codecs, and in other containers, all are needed.

    HEVC has such frames, too, but frames of higher temporal layers may be made from them; other codecs don't say.

    Args:
        codec: FFmpeg's name.
        configuration: what the container tells of the codec, `extradata`.
    """

    def __init__(self, codec: str, configuration: bytes | None) -> None:
        known = codec == "h264" and configuration is not None and len(configuration) > 4 and configuration[0] == _AVCC
        self._length_bytes = (configuration[4] & 3) + 1 if known and configuration is not None else 0

    def __contains__(self, packet: Any) -> bool:
        if not self._length_bytes:
            return False
        data, place, slices = memoryview(packet), 0, 0
        while place + self._length_bytes < len(data):
            first = place + self._length_bytes
            if data[first] & 31 in _SLICES:
                if data[first] & _REFERENCE:
                    return False
                slices += 1
            place = first + int.from_bytes(data[place:first], "big")
        return slices > 0 and place == len(data)
