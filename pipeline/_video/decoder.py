"""Decodes the frames of one video that are asked for, and those that they are made from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pipeline._video.clip import Clip
from pipeline._video.contexts import Contexts
from pipeline._video.references import Unreferenced
from pipeline.errors import DecodeError

__all__ = ["Decoder"]

_TRIES = 3  # key frames to seek to, each before the last one, until the video is decoded from its start


class Decoder:
    """A video that is open, and decoded up to some frame. Belongs to one thread at a time.

    Args:
        clip: the video.
        contexts: where what decodes it may come from, and goes when it is closed.

    Attributes:
        next: the frame that comes next, without a seek.
    """

    def __init__(self, clip: Clip, contexts: Contexts | None = None) -> None:
        self.clip = clip
        self._contexts = contexts
        self._index = clip.index
        self._container: Any = None
        self._stream: Any = None
        self._context: Any = None  # decodes its packets
        self._frames: Iterator[Any] = iter(())
        self._trouble: Exception | None = None  # the last that FFmpeg told of
        self._unreferenced = Unreferenced("", None)
        self._goal = 0  # when the frame is shown that is wanted next
        self._left_out: set[int] = set()  # frames that won't come, as they aren't decoded
        self.next = 0
        self._open(contexts)

    def decode(self, wanted: Sequence[int]) -> Iterator[tuple[int, Any]]:
        """Give frames as `av.VideoFrame`s, each with its number.

        Args:
            wanted: their numbers, ascending.

        Raises:
            DecodeError: a frame can't be decoded. Its callers name the video, by `Clip.errors`.
        """
        for frame in wanted:
            yield frame, self._find(frame)

    def reaches(self, frame: int) -> bool:
        """Whether going on is the shortest way to a frame."""
        return self.next == frame or self._index.key_up_to(frame) <= self.next < frame

    def close(self, reuse: bool = False) -> None:
        """Close the video.

        Args:
            reuse: let another video have what decoded this one, unless there was trouble with it.
        """
        self._frames = iter(())
        if reuse and self._contexts is not None and self._context is not None and self._trouble is None:
            self._contexts.give(self.clip.encoding, self._context)
        self._stream = self._context = None  # the decoder goes with them, and its memory on the GPU
        if self._container is not None:
            self._container.close()
            self._container = None

    def _find(self, frame: int) -> Any:
        if not 0 <= frame < len(self._index):
            raise DecodeError(f"it has no frame {frame}, only {len(self._index)} frames")
        self._goal = int(self._index.times[frame])
        if self.reaches(frame):
            found = self._go_on(frame)
            if found is not None:
                return found
        for key in self._ways_to(frame):
            if key is None:
                self.close()
                self._open(None)
            elif not self._seek(key):
                continue
            found = self._go_on(frame)
            if found is not None:
                return found
        blamed = "is damaged" if self.clip.decoded_by is None else "is damaged, or NVDEC can't decode it"
        raise DecodeError(f"frame {frame} of {len(self._index)} {blamed}") from self._trouble

    def _ways_to(self, frame: int) -> Iterator[int | None]:
        """Give positions in the index's `keys` from which a frame may be reached, and None for the video's start."""
        if self._index.seekable and self._index.keys[0] <= frame:
            last = self._index.key_before(frame)
            yield from range(last, max(-1, last - _TRIES), -1)
        yield None

    def _open(self, contexts: Contexts | None) -> None:
        self._container, self._stream, self._context = self.clip.open(contexts)
        if self._index.seekable:
            self._unreferenced = Unreferenced(self.clip.encoding.codec, self._context.extradata)
        self._frames = self._decode_on(self._container.demux(self._stream))
        self._left_out.clear()
        self.next = 0

    def _seek(self, key: int) -> bool:
        """Go to a key frame, or to one before it; return whether that was possible."""
        frame = int(self._index.keys[key])
        self._container.seek(int(self._index.times[frame]), stream=self._stream)
        self._context.flush_buffers()
        packets = self._container.demux(self._stream)
        for packet in packets:
            if packet.is_keyframe and packet.size:
                landed = frame if packet.is_discard else self._index.number(packet.pts)  # all before it is passed over
                if landed is None or landed > frame:
                    return False
                self._frames = self._decode_on(packets, packet)
                self._left_out.clear()
                self.next = landed
                return True
        return False

    def _decode_on(self, packets: Iterator[Any], first: Any = None) -> Iterator[Any]:
        if first is not None:
            yield from self._context.decode(first)
        for packet in packets:
            if packet.size and packet.pts is not None and packet.pts < self._goal and packet in self._unreferenced:
                number = self._index.number(packet.pts)
                if number is not None:
                    self._left_out.add(number)
                    continue
            yield from self._context.decode(packet)

    def _go_on(self, wanted: int) -> Any:
        """Return a frame that comes later; None when it doesn't come, or comes after a gap.

        A decoder makes frames behind a gap of whatever it has, and they look like their neighbours.
        """
        try:
            for frame in self._frames:
                number = self._index.number(frame.pts, self.next) if self._index.seekable else self.next
                if number is None or number < self.next:  # shown before the key frame that decoding began at
                    continue
                if frame.is_corrupt or not self._left_out.issuperset(range(self.next, number)):
                    break
                self.next = number + 1
                if number == wanted:
                    return frame
        except self.clip.decoding_errors as error:
            self._trouble = error
        self._frames = iter(())
        self.next = len(self._index)
        return None
