"""The choice of a placement by measurement: the user's loop runs with each candidate for a while."""

from __future__ import annotations

import logging
import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence

from dali_proxy._server.comparison import Comparison
from dali_proxy._server.loop_rate import LoopRate
from dali_proxy._transport.protocol import Computed

_SETTLE = 0.3  # seconds after the first batch of a candidate that aren't measured: queues fill
_PATIENCE = 30.0  # seconds until a candidate has its first batch, else it isn't measured
_LONGEST = 32.0  # seconds of measurements after which no further round begins
_LEAST = 1e-6  # batches per second: a rate of 0 has no logarithm
_CHANGE = 0.1  # relative change of the loop's rate after which conditions count as changed...
_REGRET = 0.97  # ... and the part of another candidate's rate below which the choice counts as wrong...
_WINDOWS = 6  # ... if so many measurements in sequence agree
_REST = 15.0  # seconds between two trials, at least; doubled if the second one confirms the first one
_LONGEST_REST = 1800.0

_log = logging.getLogger("dali_proxy")


class Trial:
    """Measures the rate of the user's loop with each candidate, chooses the fastest, and repeats that after changes.

    The loop takes batches as usual meanwhile: candidates differ only in where the batches are computed. Each candidate
    is measured once; the one that ran first, while everything started, once more instead. Those that may still be the
    fastest, considering how much the measurements vary, are measured again in turn, until one is left or it would
    take too long.

    Args:
        candidates: names of the candidates. The first one runs already.
        choose: lets later batches be computed by a candidate, given by its number. The second argument is whether a
            measurement follows, or else the decision.
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
        choose: Callable[[int, bool], None],
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
        self._began = 0.0  # time of the first batch of the trial; 0 before
        self._spent = 0.0  # seconds of its measurements, without pauses of the loop
        self._decided = 0.0  # time of the last decision
        self._last = 0  # what it was
        self._usual: list[float] = []  # rates of the loop after it: the first ones
        self._changes: list[float] = []  # rates in sequence that differ from them, or from what others promise
        self._comparison = Comparison()
        self._measured: dict[int, float] = {}  # in this round
        self._plan: deque[int] = deque()  # candidates to be measured
        self._first = 0.0  # time of the candidate's first batch; 0 before
        self._window: LoopRate | None = None
        self._waiting_since = 0.0  # time of a batch of another candidate; 0 before
        self._begin_trial(0)

    @property
    def is_settled(self) -> bool:
        """Whether a candidate was chosen, and the loop has taken its batches for a while."""
        return not self._plan and self._window is not None

    def pause(self) -> None:
        """Record that the loop ends or begins: the time between isn't measured."""
        self._start_window()

    def repeat(self) -> None:
        """Measure all candidates again from now on."""
        self._begin_trial(self.current)

    def take(self, candidate: int, computed: Computed | None) -> None:
        """Record that the loop takes a batch.

        Args:
            candidate: number of the candidate that computed the batch.
            computed: batches that this candidate has computed since it was chosen to be measured; None if unknown.
        """
        now = self._clock()
        if not self._began:
            self._began = now
            self._choose(self.current, True)
        if candidate != self.current:  # it was computed before the change
            self._waiting_since = self._waiting_since or now
            if self._plan and (self._refused(self.current) or now - self._waiting_since > _PATIENCE):
                self._skip()
            return
        if not self._first:
            self._first = now
        if now - self._first < _SETTLE:
            return
        if self._window is None:
            self._window = LoopRate(now, computed)
            return
        rate = self._window.take(now, computed)
        if rate is None:
            return
        rate = max(rate, _LEAST)
        self._window = LoopRate(now, computed)
        if self._plan:
            self._spent += now - self._first
            self._note(rate)
        else:
            self._watch(rate, now)

    def _start_window(self) -> None:
        self._first = self._waiting_since = 0.0
        self._window = None

    def _begin_trial(self, first: int) -> None:
        self._began = self._spent = 0.0
        self._comparison, self._measured = Comparison(), {}
        others = (number for number in range(len(self._candidates)) if number != first)
        self._plan = deque([first, *others, first])
        self._switch(first)

    def _note(self, rate: float) -> None:
        self._measured[self.current] = rate
        self._plan.popleft()
        self._next()

    def _skip(self) -> None:
        skipped = self.current
        self._plan = deque(number for number in self._plan if number != skipped)
        self._measured.pop(skipped, None)
        self._comparison.drop(skipped)
        self._next()

    def _next(self) -> None:
        if not self._plan:
            self._comparison.add(self._measured)
            self._measured = {}
            contenders = self._comparison.contenders()
            if len(contenders) > 1 and self._spent < _LONGEST:
                self._plan.extend(contenders if self.current == contenders[0] else reversed(contenders))
        if self._plan:
            self._switch(self._plan[0])
        else:
            self._decide()

    def _decide(self) -> None:
        best = self._comparison.best()
        now = self._clock()
        self._rest = min(2 * self._rest, _LONGEST_REST) if self._decided and best == self._last else _REST
        self._decided, self._last = now, best
        self._usual, self._changes = [], []
        rates = self._comparison.rates()
        figures = ", ".join(self._figure(number, rates) for number in range(len(self._candidates)))
        self.reason = f"batches/s of the loop: {figures}; measured in {now - self._began:.0f} s"
        self._switch(best)
        self._choose(best, False)
        _log.info("placement=%r: %s", self._candidates[best], self.reason)

    def _figure(self, number: int, rates: dict[int, float]) -> str:
        if number in rates:
            return f"{self._candidates[number]} {rates[number]:.1f}"
        return f"{self._candidates[number]} not measured ({self._refused(number) or 'no batch in time'})"

    def _switch(self, number: int) -> None:
        self._start_window()
        if number != self.current:
            self.current = number
            self._choose(number, True)

    def _watch(self, rate: float, now: float) -> None:
        """Compare the loop's rate with those after the decision; begin a new trial if conditions have changed."""
        if len(self._usual) < _WINDOWS:
            self._usual.append(rate)
        usual = statistics.median(self._usual)
        others = max((each for number, each in self._comparison.rates().items() if number != self.current), default=0.0)
        if abs(rate / usual - 1) > _CHANGE or rate < _REGRET * others:
            self._changes.append(rate)
        else:
            self._changes.clear()
        if len(self._changes) >= _WINDOWS and now - self._decided > self._rest:
            _log.info("placement: the loop takes %.1f batches/s instead of %.1f: measuring again", rate, usual)
            self._begin_trial(self.current)
