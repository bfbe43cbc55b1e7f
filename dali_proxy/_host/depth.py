"""The number of batches in the executor: it follows from what further batches gain, and from their memory."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["Depth"]

_NBYTES = 256 << 20  # inputs and results of all batches in the executor, if these are more than the least number
_WINDOW = 0.1  # seconds of a measurement, at least
_BATCHES = 8  # finished batches of a measurement, at least
_GAIN = 1.04  # a greater depth must be so much faster, else it only takes memory
_REST = 32  # measurements until a depth that gained nothing is tried again; doubled each time


class Depth:
    """Searches the smallest depth at which the executor is fastest.

    While requests wait and results don't, the executor limits the speed. If its rate is then higher with a greater
    depth, each batch spends its time waiting (for a decoder, a lock or another thread) rather than computing, as small
    batches do. The depth grows until the rate doesn't.

    Args:
        least: number of batches that the executor can always use, from `prefetch_queue_depth`.
        most: number of batches from which on more would hardly help.
        changed: called with the new depth.
        clock: returns the time in seconds.

    Attributes:
        value: the depth.
        reason: reason for it, as text for users.
    """

    def __init__(
        self, least: int, most: int, changed: Callable[[int], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.value = least
        self.reason = "prefetch_queue_depth"
        self._least, self._most = least, most
        self._changed = changed
        self._clock = clock
        self._begin = 0.0  # of a measurement; 0 for none
        self._count = 0
        self._base: tuple[int, float] | None = None  # depth and rate before the depth that is being tried
        self._settled = False  # whether batches of an earlier depth have ended
        self._rest = 0
        self._next_rest = _REST

    def finish(self, limits: bool, nbytes: int) -> None:
        """Record that a batch has finished.

        Args:
            limits: whether the executor limits the speed: other requests wait for it, and consumers wait for results.
            nbytes: size of its inputs and results.
        """
        most = max(self._least, min(self._most, _NBYTES // max(nbytes, 1)))
        if self.value > most:
            self._set(most, "memory")
            self._base, self._begin = None, 0.0
            return
        if not limits or not self._begin:
            self._begin, self._count = (self._clock() if limits else 0.0), 0
            return
        self._count += 1
        seconds = self._clock() - self._begin
        if self._count < max(_BATCHES, 2 * self.value) or seconds < _WINDOW:
            return
        rate, self._begin, self._count = self._count / seconds, self._clock(), 0
        self._judge(rate, most)

    def _judge(self, rate: float, most: int) -> None:
        if self._base is not None and not self._settled:
            self._settled = True
            return
        if self._base is not None:
            before, base = self._base
            if rate < _GAIN * base:
                self._set(before, f"a depth of {self.value} wasn't faster ({rate:.0f} batches/s, {base:.0f} before)")
                self._base, self._rest, self._next_rest = None, self._next_rest, 2 * self._next_rest
                return
            self._next_rest = _REST
            self.reason = f"{rate:.0f} batches/s, {base:.0f} with a depth of {before}"
        if self._rest:
            self._rest -= 1
        elif self.value < most:
            self._base, self._settled = (self.value, rate), False
            self._set(min(self.value + max(1, self.value // 2), most), "tried: requests wait for the executor")
        else:
            self._base = None

    def _set(self, value: int, reason: str) -> None:
        self.value, self.reason = value, reason
        self._changed(value)
