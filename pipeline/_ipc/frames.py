"""Frames on a stream: number of bytes, type, number of descriptors, then the message."""

from __future__ import annotations

import os
import struct
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from pipeline._ipc.errors import ProtocolError

__all__ = ["MAX_BODY", "MAX_FDS", "MAX_FRAME_FDS", "Frame", "FrameParser", "close_all", "encode_frame"]

MAX_BODY = 16 << 20  # parsed messages take up to 35 times as much memory
MAX_FDS = 64  # in one call; the kernel allows 253
MAX_FRAME_FDS = (1 << 16) - 1  # in one frame, sent by several calls

_HEADER = struct.Struct("<IHH")  # bytes of the body, type, descriptors


class Frame(NamedTuple):
    """A complete frame."""

    number: int
    body: bytes
    fds: tuple[int, ...]


def encode_frame(number: int, body: bytes, fds: int) -> bytes:
    """Return the header and body of a frame.

    Raises:
        ProtocolError: a peer wouldn't accept a frame of this size.
    """
    if len(body) > MAX_BODY or (fds and fds > min(MAX_FRAME_FDS, MAX_FDS * (_HEADER.size + len(body)))):
        raise ProtocolError(f"a message of {len(body)} bytes and {fds} descriptors is too large to send")
    return _HEADER.pack(len(body), number, fds) + body


def close_all(fds: Iterable[int]) -> None:
    """Close descriptors."""
    for fd in fds:
        os.close(fd)


class FrameParser:
    """Splits a stream that arrives in pieces into frames.

    Descriptors are sent alongside the bytes, in order: the kernel delivers those of a frame with its first bytes (a
    byte for each `MAX_FDS` of them) at the latest, and never those of a later one before it was read up to there.

    Args:
        max_fds: maximum number of descriptors that may come with a frame.

    Attributes:
        missing: number of bytes that the current frame still lacks, as far as its header has arrived.
    """

    def __init__(self, max_fds: int = MAX_FDS) -> None:
        self.missing = _HEADER.size
        self._max_fds = max_fds
        self._buffer = bytearray()
        self._fds: deque[int] = deque()

    def feed(self, data: bytes | memoryview, fds: Iterable[int] = ()) -> list[Frame]:
        """Accept data, and return the frames that are complete now. Owns `fds`.

        Raises:
            ProtocolError: a frame is too large, or doesn't announce its descriptors. Then call `close`.
        """
        buffer = self._buffer
        buffer += data
        self._fds.extend(fds)
        frames: list[Frame] = []
        start = 0
        try:
            with memoryview(buffer) as view:
                while len(view) - start >= _HEADER.size:
                    length, number, count = _HEADER.unpack_from(view, start)
                    if length > MAX_BODY or count > self._max_fds:
                        raise ProtocolError(f"a frame of {length} bytes and {count} descriptors exceeds the limit")
                    end = start + _HEADER.size + length
                    if len(view) < end:
                        break
                    if count > len(self._fds):
                        raise ProtocolError(f"{count} descriptors were announced, but {len(self._fds)} arrived")
                    frame_fds = tuple([self._fds.popleft() for _ in range(count)]) if count else ()
                    frames.append(Frame(number, bytes(view[start + _HEADER.size : end]), frame_fds))
                    start = end
            if self._fds and len(self._fds) > self._expected(start):
                raise ProtocolError("descriptors arrived that weren't announced by a message")
        except ProtocolError:
            for frame in frames:
                close_all(frame.fds)
            raise
        del buffer[:start]
        announced = int(_HEADER.unpack_from(buffer)[0]) if len(buffer) >= _HEADER.size else 0
        self.missing = _HEADER.size + announced - len(buffer)
        return frames

    def _expected(self, start: int) -> int:
        """Return the number of descriptors that may have come with the incomplete frame at an offset."""
        available = len(self._buffer) - start
        if available < _HEADER.size:
            return MAX_FDS * available
        return int(_HEADER.unpack_from(self._buffer, start)[2])

    def close(self) -> None:
        """Close the descriptors of an incomplete frame."""
        close_all(self._fds)
        self._fds.clear()
        self._buffer = bytearray()  # a thread that was reading at a fork still refers to the old one, in the child
