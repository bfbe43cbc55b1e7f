"""Reads chosen frames of videos into one array, with decoders that stay open for the frames that come next."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from pipeline.errors import ArgumentValueError
from pipeline.video.clip import Clip
from pipeline.video.decoder import Decoder
from pipeline.video.selection import FILL

__all__ = ["Decoders", "Target", "read_frames"]


class Target(Protocol):
    """Makes pixels of frames. Belongs to one thread at a time."""

    channels: int

    def current(self) -> AbstractContextManager[Any]:
        """Return a context in which further work on the pixels comes after what was written."""

    def empty(self, shape: tuple[int, ...]) -> Any:
        """Return memory for frames, uint8."""

    def write(self, frame: Any, out: Any) -> None:
        """Write a frame into an HWC array.

        Raises:
            DecodeError: the frame's size is another one.
        """

    def finish(self) -> None:
        """Wait until what was written is there."""


class Decoders:
    """Decoders that are kept open, each for the sequence after the last one it gave.

    Args:
        limit: how many are kept; those unused for the longest time are closed first.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._idle: list[Decoder] = []

    @contextmanager
    def lend(self, clip: Clip, frame: int) -> Iterator[Decoder]:
        """Give a decoder of a clip, one that needs no seek to get to `frame` if possible."""
        decoder = self._take(clip, frame)
        try:
            yield decoder
        except BaseException:
            decoder.close()
            raise
        self._keep(decoder)

    def _take(self, clip: Clip, frame: int) -> Decoder:
        with self._lock:
            own = [decoder for decoder in self._idle if decoder.clip is clip]
            found = next((decoder for decoder in own if decoder.reaches(frame)), own[0] if own else None)
            if found is not None:
                self._idle.remove(found)
                return found
        return Decoder(clip)

    def _keep(self, decoder: Decoder) -> None:
        with self._lock:
            self._idle.append(decoder)
            surplus = self._idle[: max(0, len(self._idle) - self._limit)]
            del self._idle[: len(surplus)]
        for each in surplus:
            each.close()

    def close(self) -> None:
        """Close all that are kept."""
        with self._lock:
            idle, self._idle = self._idle, []
        for decoder in idle:
            decoder.close()


def read_frames(
    clip: Clip, frames: Sequence[int], target: Target, decoders: Decoders, fill: Sequence[int] = (0,)
) -> Any:
    """Return frames as one FHWC array, uint8.

    Args:
        clip: the video.
        frames: numbers of frames, in any order, and `FILL` for a frame of one colour.
        target: makes pixels of them.
        decoders: the decoder comes from there.
        fill: the colour, a value for each channel or one for all.

    Raises:
        DecodeError: frames can't be decoded; the message names the video.

    Example:
        >>> clip = Clip("clip.mp4")  # doctest: +SKIP
        >>> read_frames(clip, [0, 4, 2], Pixels(types.RGB), Decoders(1)).shape  # doctest: +SKIP
        (3, 480, 640, 3)
    """
    places: dict[int, list[int]] = {}
    for place, frame in enumerate(frames):
        places.setdefault(int(frame), []).append(place)
    filled = places.pop(FILL, [])
    wanted = sorted(places) or [0]  # a frame tells the size, if nothing else
    made: Any = None
    assert len(clip.index)  # whoever makes it names the video in its errors
    with clip.errors(), decoders.lend(clip, wanted[0]) as decoder:
        for number, frame in decoder.decode(wanted):
            if made is None:
                made = target.empty((len(frames), frame.height, frame.width, target.channels))
            first, *others = places.get(number, [None])
            if first is not None:
                target.write(frame, made[first])
                with target.current():
                    for other in others:
                        made[other] = made[first]
        if len(fill) not in (1, target.channels):
            raise ArgumentValueError(f"fill_value has {len(fill)} values, the frames have {target.channels} channels")
        with target.current():
            for place in filled:
                for channel in range(target.channels):
                    made[place, ..., channel] = fill[channel % len(fill)]
        target.finish()
    return made
