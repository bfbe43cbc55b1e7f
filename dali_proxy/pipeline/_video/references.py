"""Finds packets that don't have to be decoded, because no other frame refers to their frames."""

from __future__ import annotations

from typing import Any

_AVCC = 1  # first byte of H.264's configuration if the units in packets have length prefixes
_SLICES = range(1, 6)
_REFERENCE = 0x60  # bits of a unit's first byte (nal_ref_idc): 0 if no other frame refers to it


class Unreferenced:
    """The set of unreferenced packets of H.264 in MP4 and Matroska; empty for other codecs and containers.

    HEVC has such frames, too, but frames of higher temporal layers may refer to them. Other codecs don't mark them.
    """

    def __init__(self, codec: str, configuration: bytes | None) -> None:
        known = codec == "h264" and configuration is not None and len(configuration) > 4 and configuration[0] == _AVCC
        self._length_bytes = (configuration[4] & 3) + 1 if known and configuration is not None else 0

    def __contains__(self, packet: Any) -> bool:
        if not self._length_bytes:
            return False
        data, offset, slices = memoryview(packet), 0, 0
        while offset + self._length_bytes < len(data):
            first = offset + self._length_bytes
            if data[first] & 31 in _SLICES:
                if data[first] & _REFERENCE:
                    return False
                slices += 1
            offset = first + int.from_bytes(data[offset:first], "big")
        return slices > 0 and offset == len(data)
