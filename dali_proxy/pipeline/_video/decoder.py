"""Decodes the requested frames of one video, and their reference frames."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from dali_proxy.pipeline._video.clip import Clip
from dali_proxy.pipeline._video.contexts import Contexts
from dali_proxy.pipeline._video.references import Unreferenced
from dali_proxy.pipeline.errors import DecodeError

_TRIES = 3  # number of key frames to try, each earlier than the last, before decoding from the start


class Decoder:
    """An open video with a current position. Only one thread at a time may use it.

    Attributes:
        next: number of the next frame without a seek.
        decoded: number of frames decoded so far.
    """

    def __init__(self, clip: Clip, contexts: Contexts | None = None) -> None:
        self.clip = clip
        self._contexts = contexts
        self._index = clip.index
        self._container: Any = None
        self._stream: Any = None
        self._context: Any = None  # decodes the packets
        self._frames: Iterator[Any] = iter(())
        self._error: Exception | None = None  # the last error of FFmpeg
        self._unreferenced = Unreferenced("", None)
        self._last = 0  # number of the last wanted frame
        self._goal = 0  # time stamp of the next wanted frame
        self._skipped: set[int] = set()  # frames that don't appear because their packets aren't decoded
        self.next = self.decoded = 0
        self._open(contexts)

    def decode(self, wanted: Sequence[int]) -> Iterator[tuple[int, Any]]:
        """Yield frames, whose numbers ascend, as `av.VideoFrame`s, each with its number.

        Raises:
            DecodeError: a frame can't be decoded. Callers add the name of the video with `Clip.errors`.
        """
        self._last = wanted[-1] if wanted else 0
        for frame in wanted:
            yield frame, self._find(frame)

    def reaches(self, frame: int) -> bool:
        """Return whether to continue decoding, instead of a seek, is the fastest way to a frame."""
        return self.next == frame or self._index.key_up_to(frame) <= self.next < frame

    def close(self, reuse: bool = False) -> None:
        """Close the video.

        Args:
            reuse: return the codec context to the cache, unless it had an error.
        """
        self._frames = iter(())
        if reuse and self._contexts is not None and self._context is not None and self._error is None:
            self._contexts.give(self.clip.encoding, self._context)
        self._stream = self._context = None  # frees the decoder and its memory on the GPU
        if self._container is not None:
            self._container.close()
            self._container = None

    def _find(self, frame: int) -> Any:
        if not 0 <= frame < len(self._index):
            raise DecodeError(f"it has no frame {frame}, only {len(self._index)} frames")
        self._goal = int(self._index.times[frame])
        if self.reaches(frame):
            found = self._decode_up_to(frame)
            if found is not None:
                return found
        for key in self._starts_for(frame):
            if key is None:
                self.close()
                self._open(None)
                if self.clip.table is not None:
                    self._seek(0)
            elif not self._seek(key):
                continue
            found = self._decode_up_to(frame)
            if found is not None:
                return found
        cause = "is damaged" if self.clip.decoded_by is None else "is damaged, or NVDEC can't decode it"
        raise DecodeError(f"frame {frame} of {len(self._index)} {cause}") from self._error

    def _starts_for(self, frame: int) -> Iterator[int | None]:
        """Yield positions in the index's `keys` to decode a frame from, then None for the start of the video."""
        if self._index.seekable and self._index.keys[0] <= frame:
            last = self._index.key_before(frame)
            yield from range(last, max(-1, last - _TRIES), -1)
        yield None

    def _open(self, contexts: Contexts | None) -> None:
        self._skipped.clear()
        self._frames = iter(())
        self.next = len(self._index)
        if self.clip.table is not None:
            self._context = self.clip.context(contexts)
        else:
            self._container, self._stream, self._context = self.clip.open(contexts)
            self._frames = self._decode_packets(self._container.demux(self._stream))
            self.next = 0
        if self._index.seekable:
            self._unreferenced = Unreferenced(self.clip.encoding.codec, self._context.extradata)

    def _seek(self, key: int) -> bool:
        """Seek to a key frame, or to an earlier one; return whether it succeeded."""
        frame = int(self._index.keys[key])
        table = self.clip.table
        if table is not None:
            start = table.start(frame)
            if start is None:
                return False
            self._context.flush_buffers()
            packets = table.packets(start, max(frame, self._last), self.clip.read, self._index.time_base)
            self._frames = self._decode_packets(itertools.chain(packets, [None]))
            self._skipped.clear()
            self.next = frame
            return True
        self._container.seek(int(self._index.times[frame]), stream=self._stream)
        self._context.flush_buffers()
        packets = self._container.demux(self._stream)
        for packet in packets:
            if packet.is_keyframe and packet.size:
                landed = frame if packet.is_discard else self._index.number(packet.pts)  # earlier frames are ignored
                if landed is None or landed > frame:
                    return False
                self._frames = self._decode_packets(packets, packet)
                self._skipped.clear()
                self.next = landed
                return True
        return False

    def _decode_packets(self, packets: Iterator[Any], first: Any = None) -> Iterator[Any]:
        if first is not None:
            yield from self._context.decode(first)
        for packet in packets:
            if (
                packet is not None
                and packet.size
                and packet.pts is not None
                and packet.pts < self._goal
                and packet in self._unreferenced
            ):
                number = self._index.number(packet.pts)
                if number is not None:
                    self._skipped.add(number)
                    continue
            yield from self._context.decode(packet)

    def _decode_up_to(self, wanted: int) -> Any:
        """Return a later frame, or None if it doesn't appear, or appears after a gap.

        After a gap, a decoder builds frames from whatever references it has, and the result looks like a neighbor.
        """
        try:
            for frame in self._frames:
                self.decoded += 1
                number = self._index.number(frame.pts, self.next) if self._index.seekable else self.next
                if number is None or number < self.next:  # shown before the key frame where decoding began
                    continue
                if frame.is_corrupt or not self._skipped.issuperset(range(self.next, number)):
                    break
                self.next = number + 1
                if number == wanted:
                    return frame
        except self.clip.decoding_errors as error:
            self._error = error
        self._frames = iter(())
        self.next = len(self._index)
        return None
