"""Reads chosen frames of videos into one array, with decoders that stay open for later frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from dali_proxy.pipeline._concurrency.locks import Level, new_condition, new_rlock
from dali_proxy.pipeline._size_limit import check_size
from dali_proxy.pipeline._video.clip import Clip
from dali_proxy.pipeline._video.contexts import Contexts
from dali_proxy.pipeline._video.decoder import Decoder
from dali_proxy.pipeline._video.selection import FILL
from dali_proxy.pipeline.errors import ArgumentValueError

_CONTEXTS = 8


class Target(Protocol):
    """Converts frames to pixels. Only one thread at a time may use it."""

    channels: int
    #: Whether any number of decoded frames may be kept before they are converted.
    may_wait: bool

    def current(self) -> AbstractContextManager[Any]:
        """Return a context in which work on the pixels is ordered after previous writes."""

    def empty(self, shape: tuple[int, ...]) -> Any:
        """Return uninitialized memory for frames, uint8."""

    def write(self, frame: Any, out: Any) -> None:
        """Write a frame into an HWC array.

        Raises:
            DecodeError: the size of the frame differs.
        """

    def finish(self, pixels: Any) -> Any:
        """Wait for the writes, and return the pixels on the requested device."""


@dataclass(frozen=True, eq=False)
class _Loan:
    """A decoder in use, and its next frame when it is returned."""

    decoder: Decoder
    following: int


class Decoders:
    """Decoders that stay open, each for the sequence after the last one it decoded.

    A caller that needs the sequence after one that is being decoded waits for that decoder. Another decoder would have
    to decode the same frames again, from the key frame on.

    On a GPU, an idle decoder is closed before the limit is exceeded. A new decoder reuses its codec context if the
    encodings of their videos are the same.

    Args:
        limit: number of idle decoders to keep; the least recently used ones are closed first.
        contexts: number of codec contexts of closed decoders to keep.
    """

    def __init__(self, limit: int, contexts: int = _CONTEXTS) -> None:
        self._limit = limit
        self._contexts = Contexts(contexts)
        # Guards the fields below.
        self._changed = new_condition(new_rlock(Level.VIDEO_DECODERS, "video decoders"))
        self._idle: list[Decoder] = []
        self._loans: list[_Loan] = []

    @property
    def shared(self) -> bool:
        """Whether another caller may wait for a decoder that is in use."""
        return self._limit > 0

    @contextmanager
    def lend(self, clip: Clip, first: int, last: int) -> Iterator[Decoder]:
        """Lend a decoder of a clip for the frames from `first` up to `last`: if possible, one that needs no seek."""
        loan = self._take(clip, first, last)
        try:
            yield loan.decoder
        except BaseException:
            loan.decoder.close()
            self._give_back(loan, keep=False)
            raise
        self._give_back(loan, keep=True)

    def close(self) -> None:
        """Close all idle decoders."""
        with self._changed:
            idle, self._idle = self._idle, []
        for decoder in idle:
            decoder.close()
        self._contexts.close()

    def _take(self, clip: Clip, first: int, last: int) -> _Loan:
        with self._changed:
            while True:
                own = [decoder for decoder in self._idle if decoder.clip is clip]
                found = next((decoder for decoder in own if decoder.reaches(first)), None)
                if found is not None or not self._approaches(clip, first):
                    break
                self._changed.wait()
            found = found or (own[0] if own else None)
            if found is not None:
                self._idle.remove(found)
                return self._lent(found, last)
            evicted = self._evict_for(clip)
        if evicted is not None:
            evicted.close(reuse=True)
        opened = Decoder(clip, self._contexts)
        with self._changed:
            return self._lent(opened, last)

    def _evict_for(self, clip: Clip) -> Decoder | None:
        """Remove and return an idle decoder if a new one would exceed the limit on the GPU."""
        if clip.decoded_by is None or not self._idle or len(self._idle) + len(self._loans) < self._limit:
            return None
        alike = (decoder for decoder in self._idle if decoder.clip.encoding.key == clip.encoding.key)
        evicted = next(alike, self._idle[0])
        self._idle.remove(evicted)
        return evicted

    def _lent(self, decoder: Decoder, last: int) -> _Loan:
        loan = _Loan(decoder, last + 1)
        self._loans.append(loan)
        return loan

    def _approaches(self, clip: Clip, first: int) -> bool:
        """Return whether a decoder in use will end nearer to a frame than to the key frame before it."""
        key = clip.index.key_up_to(first)
        if key == first:
            return False  # another decoder begins there, too
        return any(
            loan.decoder.clip is clip and first - loan.following <= loan.following - key and loan.following <= first
            for loan in self._loans
        )

    def _give_back(self, loan: _Loan, keep: bool) -> None:
        surplus: list[Decoder] = []
        with self._changed:
            self._loans.remove(loan)
            if keep:
                self._idle.append(loan.decoder)
                surplus = self._idle[: max(0, len(self._idle) - self._limit)]
                del self._idle[: len(surplus)]
            self._changed.notify_all()
        for each in surplus:
            each.close(reuse=True)


def read_frames(
    clip: Clip, frames: Sequence[int], target: Target, decoders: Decoders, fill: Sequence[int] = (0,)
) -> Any:
    """Return frames as one FHWC array, uint8.

    Args:
        clip: the video.
        frames: frame numbers in any order; `FILL` for a frame of one color.
        target: converts the frames to pixels.
        decoders: pool that lends the decoder.
        fill: the color: one value, or one per channel.

    Raises:
        DecodeError: frames can't be decoded; the message names the video.

    Example:
        >>> clip = Clip("clip.mp4")  # doctest: +SKIP
        >>> read_frames(clip, [0, 4, 2], Pixels(types.RGB), Decoders(1)).shape  # doctest: +SKIP
        (3, 480, 640, 3)
    """
    positions: dict[int, list[int]] = {}
    for position, frame in enumerate(frames):
        positions.setdefault(int(frame), []).append(position)
    filled = positions.pop(FILL, [])
    wanted = sorted(positions) or [0]  # at least one frame, for the size
    pixels: Any = None
    clip.make_index()
    with clip.errors(), ExitStack() as lending:
        check_size("the decoded video", len(frames), clip.encoding.height, clip.encoding.width, target.channels)
        found: Iterable[tuple[int, Any]] = lending.enter_context(decoders.lend(clip, wanted[0], wanted[-1])).decode(
            wanted
        )
        if target.may_wait and decoders.shared:
            found = list(found)  # so that other threads can use the decoder during the conversion
            lending.close()
        for number, frame in found:
            if pixels is None:
                check_size("the decoded video", len(frames), frame.height, frame.width, target.channels)
                pixels = target.empty((len(frames), frame.height, frame.width, target.channels))
            first, *others = positions.get(number, [None])
            if first is not None:
                target.write(frame, pixels[first])
                if others:
                    with target.current():
                        for other in others:
                            pixels[other] = pixels[first]
        lending.close()  # other threads can use the decoder while this one waits for the pixels
        if len(fill) not in (1, target.channels):
            raise ArgumentValueError(
                f"fill_value has {len(fill)} values, but the frames have {target.channels} channels"
            )
        with target.current():
            for position in filled:
                for channel in range(target.channels):
                    pixels[position, ..., channel] = fill[channel % len(fill)]
        return target.finish(pixels)
