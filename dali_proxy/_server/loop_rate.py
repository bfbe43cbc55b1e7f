"""The rate at which the user's loop can take batches, from the times at which it takes them and they are computed."""

from __future__ import annotations

from dali_proxy._transport.protocol import Computed

_SECONDS = 1.2  # of a measurement, at least
_BATCHES = 12  # of a measurement, at least
_PERIODS, _LONGEST = 4, 3.0  # longest times between batches, since a loop may wait now and then; seconds, at most
_PAUSE = 0.5  # seconds between two batches from which the loop may have paused...
_LONGER = 4.0  # ... if this is so many times the longest time between two others
_PAUSES = 2  # pauses after which a measurement begins again; later ones count as the loop's own time


class LoopRate:
    """Measures a rate that the loop can keep.

    The loop takes batches faster than they are computed as long as some are ready that were computed before. So the
    rate is that at which batches are taken, or that at which they are computed, if this is lower. A pause of the loop,
    for a checkpoint for example, doesn't count.

    Args:
        now: time at which the loop took a batch, in seconds.
        computed: the batches that were computed before, without interruption by another variant of the pipeline; None
            if this isn't known, so that only the rate at which batches are taken counts.
    """

    def __init__(self, now: float, computed: Computed | None) -> None:
        self._pauses = 0
        self._begin(now, computed)

    def _begin(self, now: float, computed: Computed | None) -> None:
        self._start = self._last = now
        self._before = computed
        self._taken = 0
        self._second = self._longest = 0.0  # the longest two times between batches

    def take(self, now: float, computed: Computed | None) -> float | None:
        """Record the next batch. Return the rate in batches per second, if the measurement ends with it.

        Args:
            now: time at which the loop takes it.
            computed: the batches that have been computed.
        """
        passed, self._last = now - self._last, now
        self._second, self._longest = sorted((self._second, self._longest, passed))[1:]
        self._taken += 1
        seconds = now - self._start
        if self._taken < _BATCHES or seconds < min(max(_SECONDS, _PERIODS * self._longest), _LONGEST):
            return None
        if self._longest > max(_PAUSE, _LONGER * self._second) and self._pauses < _PAUSES:
            self._pauses += 1
            self._begin(now, computed)
            return None
        taken = self._taken / seconds
        if computed is None or self._before is None:
            return taken
        before = self._before
        # While the server has nothing to do, no batch ends, so the time between two ends may be too long.
        since = _rate(computed.batches - before.batches, min((computed.ns - before.ns) / 1e9, seconds))
        # From the first batch on, so many are computed that the end of a single one matters little; but this includes
        # the time of pauses.
        return min(taken, max(since, _rate(computed.batches - 1, computed.ns / 1e9)))


def _rate(batches: int, seconds: float) -> float:
    return batches / seconds if batches > 0 and seconds > 0 else 0.0
