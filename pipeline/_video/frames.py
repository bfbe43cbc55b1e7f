"""Reads chosen frames of videos into one array, with decoders that stay open for the frames that come next."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from pipeline._video.clip import Clip
from pipeline._video.contexts import Contexts
from pipeline._video.decoder import Decoder
from pipeline._video.selection import FILL
from pipeline.errors import ArgumentValueError

__all__ = ["Decoders", "Target", "read_frames"]

_CONTEXTS = 8


class Target(Protocol):
    """Makes pixels of frames. Belongs to one thread at a time."""

    channels: int
    #: Whether frames may lie about until pixels are made of them; there is no limit to how many.
    may_wait: bool

    def current(self) -> AbstractContextManager[Any]:
        """Return a context in which further work on the pixels comes after what was written."""

    def empty(self, shape: tuple[int, ...]) -> Any:
        """Return memory for frames, uint8."""

    def write(self, frame: Any, out: Any) -> None:
        """Write a frame into an HWC array.

        Raises:
            DecodeError: the frame's size is another one.
        """

    def finish(self, pixels: Any) -> Any:
        """Return pixels when they are there, and where they are wanted."""


@dataclass(frozen=True, eq=False)
class _Loan:
    """A decoder that somebody uses, and the frame that will come next when it is given back."""

    decoder: Decoder
    following: int


class Decoders:
    """Decoders that are kept open, each for the sequence after the last one it gave.

    Who wants the sequence after one that is being decoded waits for that decoder: another one would have to decode the
    same frames again, from the key frame on.

    On a GPU no more than are kept are open as long as one is unused: that is closed, and what it decoded with goes to
    the new one, if their videos are encoded alike.

    Args:
        limit: how many are kept; those unused for the longest time are closed first.
        contexts: how many are kept of what closed ones decoded with.
    """

    def __init__(self, limit: int, contexts: int = _CONTEXTS) -> None:
        self._limit = limit
        self._contexts = Contexts(contexts)
        self._changed = threading.Condition()  # guards what follows
        self._idle: list[Decoder] = []
        self._loans: list[_Loan] = []

    @property
    def shared(self) -> bool:
        """Whether somebody may wait for a decoder that is in use."""
        return self._limit > 0

    @contextmanager
    def lend(self, clip: Clip, first: int, last: int) -> Iterator[Decoder]:
        """Give a decoder of a clip, for frames from `first` up to `last`: one that needs no seek if possible."""
        loan = self._take(clip, first, last)
        try:
            yield loan.decoder
        except BaseException:
            loan.decoder.close()
            self._give_back(loan, keep=False)
            raise
        self._give_back(loan, keep=True)

    def close(self) -> None:
        """Close all that are kept."""
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
                if found is not None or not self._is_on_the_way(clip, first):
                    break
                self._changed.wait()
            found = found or (own[0] if own else None)
            if found is not None:
                self._idle.remove(found)
                return self._lent(found, last)
            given_up = self._to_give_up(clip)
        if given_up is not None:
            given_up.close(reuse=True)
        made = Decoder(clip, self._contexts)
        with self._changed:
            return self._lent(made, last)

    def _to_give_up(self, clip: Clip) -> Decoder | None:
        """Take out a decoder that nobody uses, whose place on the GPU another one may have."""
        if clip.decoded_by is None or not self._idle or len(self._idle) + len(self._loans) < self._limit:
            return None
        alike = (decoder for decoder in self._idle if decoder.clip.encoding.key == clip.encoding.key)
        given_up = next(alike, self._idle[0])
        self._idle.remove(given_up)
        return given_up

    def _lent(self, decoder: Decoder, last: int) -> _Loan:
        loan = _Loan(decoder, last + 1)
        self._loans.append(loan)
        return loan

    def _is_on_the_way(self, clip: Clip, first: int) -> bool:
        """Tell whether a decoder in use will be nearer to a frame than to the key frame before it."""
        key = clip.index.key_up_to(first)
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
    clip.make_index()
    with clip.errors(), ExitStack() as lending:
        found: Iterable[tuple[int, Any]] = lending.enter_context(decoders.lend(clip, wanted[0], wanted[-1])).decode(
            wanted
        )
        if target.may_wait and decoders.shared:
            found = list(found)  # so that others go on with the decoder while pixels are made
            lending.close()
        for number, frame in found:
            if made is None:
                made = target.empty((len(frames), frame.height, frame.width, target.channels))
            first, *others = places.get(number, [None])
            if first is not None:
                target.write(frame, made[first])
                if others:
                    with target.current():
                        for other in others:
                            made[other] = made[first]
        lending.close()  # others may go on with the decoder while pixels are waited for
        if len(fill) not in (1, target.channels):
            raise ArgumentValueError(
                f"fill_value has {len(fill)} values, but the frames have {target.channels} channels"
            )
        with target.current():
            for place in filled:
                for channel in range(target.channels):
                    made[place, ..., channel] = fill[channel % len(fill)]
        return target.finish(made)
