"""The number of batches in the executor: it follows from what further batches gain, and from their memory."""

from __future__ import annotations

import time
from collections.abc import Callable

from dali_proxy.pipeline._executor.available_memory import in_flight_bytes

# Inputs and results of all batches in the executor, if these are more than the least number, in bytes: on the CPU, and
# on a GPU where batches merge.
_NBYTES, _MERGING_NBYTES = 256 << 20, 1 << 30
_WINDOW = 0.1  # seconds of a measurement, at least
_BATCHES = 8  # finished batches of a measurement, at least
_GAIN = 1.04  # a greater depth must be so much faster, else it only takes memory
_LIMITED = 0.5  # part of a measurement's batches after which the executor counts as limiting
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
        merges: whether batches that wait run as one: many together then gain what few don't, so the search tries the
            greatest depth first.
        begin: number of batches to begin with, if it is between these two.
        clock: returns the time in seconds.

    Attributes:
        value: the depth.
        reason: reason for it, as text for users.
    """

    def __init__(
        self,
        least: int,
        most: int,
        changed: Callable[[int], None],
        merges: bool = False,
        begin: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.value = max(least, min(begin, most))
        self.reason = "prefetch_queue_depth"
        self._least, self._most = least, most
        self._changed = changed
        self._merges = merges
        self._nbytes = min(_MERGING_NBYTES, in_flight_bytes()) if merges else _NBYTES
        self._clock = clock
        self._begin = 0.0  # of a measurement; 0 for none
        self._count = 0
        self._limited = 0  # batches of the measurement at whose end the executor limited the speed
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
        most = max(self._least, min(self._most, self._nbytes // max(nbytes, 1)))
        if self.value > most:
            self._set(most, "memory")
            self._base, self._begin = None, 0.0
            return
        if not self._begin:
            self._start()
            return
        self._count += 1
        self._limited += limits
        seconds = self._clock() - self._begin
        if self._count < max(_BATCHES, 2 * self.value) or seconds < _WINDOW:
            return
        rate, limited = self._count / seconds, self._limited / self._count
        self._start()
        if limited < _LIMITED:
            self._base = None
        else:
            self._judge(rate, most)

    def _start(self) -> None:
        self._begin, self._count, self._limited = self._clock(), 0, 0

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
            step = most if self._merges else max(1, self.value // 2)
            self._set(min(self.value + step, most), "tried: requests wait for the executor")
        else:
            self._base = None

    def _set(self, value: int, reason: str) -> None:
        self.value, self.reason = value, reason
        self._changed(value)
