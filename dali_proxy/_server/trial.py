"""The choice of a placement by measurement: the user's loop runs with each candidate for a while."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence

__all__ = ["Trial"]

_SECONDS = 1.0  # of a measurement, at least
_BATCHES = 8  # of a measurement, at least
_SETTLE = 0.5  # seconds after the first batch of a candidate that aren't measured: queues fill
_PATIENCE = 30.0  # seconds until a candidate has its first batch, else it isn't measured
_TURNS = 2  # measurements of each candidate; the best one counts, since others may contain a pause of the loop
_MARGIN = 1.01  # a candidate must be so much faster than one before it in the list
_CHANGE = 0.12  # relative change of the loop's rate after which conditions count as changed...
_WINDOWS = 3  # ... if so many measurements in sequence agree
_REST = 15.0  # seconds between two trials, at least; doubled if the second one confirms the first one
_LONGEST_REST = 1800.0

_log = logging.getLogger("dali_proxy")


class Trial:
    """Measures the rate of the user's loop with each candidate, chooses the fastest, and repeats that after changes.

    The loop takes batches as usual meanwhile: candidates differ only in where the batches are computed.

    Args:
        candidates: names of the candidates. The first one runs already.
        choose: lets later batches be computed by a candidate, given by its number.
        refused: returns why a candidate can't run, or an empty string.
        reason: reason for the first candidate, until all are measured.
        clock: returns the time in seconds.

    Attributes:
        current: number of the candidate that computes later batches.
        reason: what was decided and why, as text for users.
    """

    def __init__(
        self,
        candidates: Sequence[str],
        choose: Callable[[int], None],
        refused: Callable[[int], str],
        reason: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.current = 0
        self.reason = reason
        self._candidates = candidates
        self._choose = choose
        self._refused = refused
        self._clock = clock
        self._rest = _REST
        self._decided = 0.0  # time of the last decision
        self._last = 0  # what it was
        self._usual = 0.0  # rate of the loop after it; 0 until it is measured
        self._changes = 0
        self._measured: dict[int, float] = {}
        self._plan: deque[int] = deque()
        self._first = 0.0  # time of the candidate's first batch; 0 before
        self._begin = 0.0  # time when the measurement began; 0 before
        self._waiting_since = 0.0  # time of a batch of another candidate; 0 before
        self._count = 0
        self._begin_trial(0)

    @property
    def is_settled(self) -> bool:
        """Whether a candidate was chosen, and the loop has taken its batches for a while."""
        return not self._plan and self._begin > 0

    def pause(self) -> None:
        """Record that the loop ends or begins: the time between isn't measured."""
        self._start_window()

    def repeat(self) -> None:
        """Measure all candidates again from now on."""
        self._begin_trial(self.current)

    def take(self, candidate: int) -> None:
        """Record that the loop takes a batch.

        Args:
            candidate: number of the candidate that computed the batch.
        """
        now = self._clock()
        if candidate != self.current:  # it was submitted before the change
            self._waiting_since = self._waiting_since or now
            if self._plan and (self._refused(self.current) or now - self._waiting_since > _PATIENCE):
                self._skip()
            return
        if not self._first:
            self._first = now
        if now - self._first < _SETTLE:
            return
        if not self._begin:
            self._begin, self._count = now, 0
            return
        self._count += 1
        if self._count < _BATCHES or now - self._begin < _SECONDS:
            return
        rate = self._count / (now - self._begin)
        self._begin, self._count = now, 0
        if self._plan:
            self._note(rate)
        else:
            self._watch(rate, now)

    def _start_window(self) -> None:
        self._first = self._begin = self._waiting_since = 0.0
        self._count = 0

    def _begin_trial(self, first: int) -> None:
        order = [first, *(number for number in range(len(self._candidates)) if number != first)]
        self._measured = {}
        self._plan = deque(order * _TURNS)
        self._next()

    def _note(self, rate: float) -> None:
        self._measured[self.current] = max(rate, self._measured.get(self.current, 0.0))
        self._plan.popleft()
        self._next()

    def _skip(self) -> None:
        skipped = self.current
        self._plan = deque(number for number in self._plan if number != skipped)
        self._next()

    def _next(self) -> None:
        if self._plan:
            self._switch(self._plan[0])
            return
        best = 0
        for number in sorted(self._measured):
            if best not in self._measured or self._measured[number] > _MARGIN * self._measured[best]:
                best = number
        self._rest = min(2 * self._rest, _LONGEST_REST) if self._decided and best == self._last else _REST
        self._decided, self._usual, self._changes, self._last = self._clock(), 0.0, 0, best
        self.reason = "batches/s of the loop: " + ", ".join(map(self._figure, range(len(self._candidates))))
        self._switch(best)
        _log.info("placement=%r: %s", self._candidates[best], self.reason)

    def _figure(self, number: int) -> str:
        if number in self._measured:
            return f"{self._candidates[number]} {self._measured[number]:.1f}"
        return f"{self._candidates[number]} not measured ({self._refused(number) or 'no batch in time'})"

    def _switch(self, number: int) -> None:
        if number != self.current:
            self._start_window()
            self.current = number
            self._choose(number)

    def _watch(self, rate: float, now: float) -> None:
        """Compare the loop's rate with that after the decision; begin a new trial if conditions have changed."""
        if not self._usual:
            self._usual = rate
        elif abs(rate / self._usual - 1) < _CHANGE:
            self._changes = 0
        else:
            self._changes += 1
        if self._changes >= _WINDOWS and now - self._decided > self._rest:
            _log.info("placement: the loop takes %.1f batches/s instead of %.1f: measuring again", rate, self._usual)
            self._begin_trial(self.current)
