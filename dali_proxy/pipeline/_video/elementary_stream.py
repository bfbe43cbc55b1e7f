"""Packets of a container as the stream that NVDEC's parser reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

_START = b"\x00\x00\x00\x01"


@dataclass(frozen=True)
class ElementaryStream:
    """How packets of a video become parts of its elementary stream.

    Attributes:
        header: what precedes a packet where decoding begins: the parameter sets.
        length_size: bytes of the length before each unit of a packet; 0 if the packets are parts of the stream already.
    """

    header: bytes = b""
    length_size: int = 0

    def part(self, packet: bytes) -> bytes:
        """Return a packet as a part of the stream, with start codes in place of lengths.

        Raises:
            ValueError: a length exceeds the packet.
        """
        return _with_start_codes(packet, self.length_size) if self.length_size else packet


@lru_cache(maxsize=256)
def stream_of(codec: str, configuration: bytes) -> ElementaryStream | None:
    """Return how packets of an MP4 become a stream; None if the codec isn't supported, or the configuration is damaged.

    Args:
        codec: FFmpeg's name of the codec.
        configuration: the box "avcC", "hvcC" or "av1C" of the file: FFmpeg's "extradata".

    The boxes are defined in ISO/IEC 14496-15 and in the AV1 codec's ISO media file format binding.

    Example:
        >>> stream = stream_of("h264", bytes.fromhex("0142c01effe1 0002 6742 01 0001 68"))
        >>> stream.header.hex(), stream.part(bytes.fromhex("00000002 6588")).hex()
        ('0000000167420000000168', '000000016588')
    """
    read = _READERS.get(codec)
    if read is None or not configuration:
        return None
    if configuration.startswith((_START, _START[1:])):
        return ElementaryStream(configuration)
    try:
        return read(configuration)
    except (IndexError, ValueError):
        return None


def _avc(box: bytes) -> ElementaryStream:
    units, at = b"", 5
    for mask in (0x1F, 0xFF):  # sequence and picture parameter sets
        count, at = box[at] & mask, at + 1
        for _ in range(count):
            unit, at = _unit(box, at)
            units += _START + unit
    return ElementaryStream(units, (box[4] & 3) + 1)


def _hevc(box: bytes) -> ElementaryStream:
    units, at = b"", 23
    for _ in range(box[22]):
        count, at = int.from_bytes(box[at + 1 : at + 3], "big"), at + 3
        for _ in range(count):
            unit, at = _unit(box, at)
            units += _START + unit
    return ElementaryStream(units, (box[21] & 3) + 1)


def _av1(box: bytes) -> ElementaryStream:
    return ElementaryStream(box[4:])


_READERS: dict[str, Callable[[bytes], ElementaryStream]] = {"h264": _avc, "hevc": _hevc, "av1": _av1}


def _unit(box: bytes, at: int) -> tuple[bytes, int]:
    """Return the unit behind its length of two bytes, and where the next one begins."""
    end = at + 2 + int.from_bytes(box[at : at + 2], "big")
    if end > len(box) or end == at + 2:
        raise ValueError
    return box[at + 2 : end], end


def _with_start_codes(packet: bytes, length_size: int) -> bytes:
    made, at = [], 0
    while at < len(packet):
        begin = at + length_size
        end = begin + int.from_bytes(packet[at:begin], "big")
        if end > len(packet):
            raise ValueError("a unit exceeds its packet")
        made += [_START, packet[begin:end]]
        at = end
    return b"".join(made)
