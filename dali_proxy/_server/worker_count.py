"""The choice of the number of dataset workers, or of pipeline threads, from counters of the loop."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

_WAITS = 0.03  # share of the loop's time that it waits for samples, from which more workers may help
_RESTS = 0.01  # ... and below which fewer may do
_PIPELINE = 0.25  # wait for results, as a part of that for samples, from which the pipeline limits a loop that reads...
_SMALL = 0.1  # ... unless reading takes a larger share of the loop's time: it could go on while the loop waits
_COMPUTES = 0.25  # share of the time of reading on a core, from which workers compute
_BUSY = 0.6  # share of the workers' time that they read, from which more workers may help
_SPARE = 0.85  # the same, if fewer workers do the work
_GAIN = 1.05  # factor of the loop's rate that more workers must bring
_LOSS = 0.97  # ... and that fewer may cost
_CLEAR = 1.2  # factor that one window shows; others need three, because workers that start slow the others down
_WINDOWS = 3  # windows of a comparison, and before workers end
_REST = 15.0  # seconds until a change that brought nothing is tried again; doubled each time
_LONGEST_REST = 1800.0
_TRIALS = 0.2  # largest share of the time for changes that bring nothing: to start workers may take long
_FREE = 0.1  # share of the cores that must be idle, so that more that compute can help
_OTHERS = 0.1  # ... unless other programs use such a share: then the idle cores say nothing
_FACTOR, _LARGE_FACTOR = 2, 4  # by which the number grows: of workers that compute, and of those that wait


@dataclass(frozen=True)
class Window:
    """Counters of the loop for a while, in seconds. If several processes have loops, waits are those of the slowest.

    Attributes:
        end: time at its end.
        batches: number of batches that the loops took.
        seconds: duration of the loop.
        wait: time that the loop waited for samples. Without workers, it read them in this time.
        results: time that it waited for the pipeline.
        reading: time that reading these batches took, summed over workers.
        processor: processor time of that.
        limit: number of workers that memory allows.
        nbytes: memory of one of them; 0 if unknown.
        idle: share of the cores that were idle; 1 if unknown.
        others: share of the cores that other programs used.
    """

    end: float
    batches: float
    seconds: float
    wait: float
    results: float
    reading: float
    processor: float
    limit: int
    nbytes: int = 0
    idle: float = 1.0
    others: float = 0.0

    @property
    def memory(self) -> str:
        """What memory allows, as text."""
        each = f" of {self.nbytes / 1e6:,.0f} MB" if self.nbytes else ""
        return f"memory allows no more than {self.limit}{each}"

    @property
    def is_full(self) -> bool:
        """Whether this program uses all cores, so that more workers or threads that compute only take turns."""
        return self.idle < _FREE and self.others < _OTHERS

    @property
    def rate(self) -> float:
        """Batches per second."""
        return self.batches / self.seconds

    @property
    def computes(self) -> bool:
        """Whether reading mostly computes, rather than waits for a disk or a network."""
        return self.processor >= _COMPUTES * self.reading


@dataclass
class _Change:
    """A change that is being compared with what was before."""

    before: int
    rate: float  # before
    needed: float  # gain that the change must bring
    rates: list[float]  # since
    begin: float  # its time


class WorkerCount:
    """Chooses the number of dataset workers, or of threads. It depends on the windows only, not on a clock.

    The number grows while the loop waits for samples, and shrinks while fewer workers would do. A change must prove
    itself by the rate of the loop: else it is undone, and not tried again for a while.

    Args:
        cores: number of cores, which is the largest number of workers that compute.
        most: largest number of workers that wait.
        log: called with a sentence for each change.
        count: number of workers at the beginning.
        threads: whether these are the pipeline's threads, of which there is always one. In their windows, `wait` is the
            time that the loop waited for results, and `reading` the time of the threads.

    Attributes:
        count: number of workers; 0 if the process of the loop reads.
        reason: reason for it, as text for users.
    """

    def __init__(
        self,
        cores: int,
        most: int,
        log: Callable[[str], None] = lambda text: None,
        count: int = 0,
        threads: bool = False,
    ) -> None:
        self.count = count
        self._unit, self._awaited = ("thread", "results") if threads else ("worker", "samples")
        self._least = int(threads)
        self.reason = "the loop hasn't run long enough to tell"
        self._cores, self._most, self._log = cores, most, log
        self._change: _Change | None = None
        self._rates: deque[float] = deque(maxlen=_WINDOWS)  # of the last windows with this number
        self._idle: list[float] = []  # shares of their time that workers read, of windows without waits
        self._until = {True: 0.0, False: 0.0}  # time until which the number doesn't grow, or shrink
        self._rest = {True: _REST, False: _REST}

    @property
    def is_trying(self) -> bool:
        """Whether a change is being compared with what was before."""
        return self._change is not None

    def _counted(self, count: int) -> str:
        return f"{count} {self._unit}{'' if count == 1 else 's'}"

    def observe(self, window: Window) -> int:
        """Return the number of workers that should run from now on.

        Args:
            window: what happened since the number was reached.
        """
        self._rates.append(window.rate)
        if self.count > window.limit:
            self._set(window.limit, window.memory)
        elif self._change is not None:
            self._judge(self._change, window)
        else:
            self._consider(window)
        return self.count

    def _judge(self, change: _Change, window: Window) -> None:
        change.rates.append(window.rate)
        gain, measured = statistics.median(change.rates) / change.rate, len(change.rates)
        grew = self.count > change.before
        if gain <= _CLEAR and measured < _WINDOWS:
            return
        brought = (
            f"{self._counted(self.count)} instead of {change.before}: the loop takes {gain:.2f} times as many batches"
        )
        self._change = None
        if gain >= change.needed:
            self.reason = brought
            self._rest[grew] = _REST
            self._log(brought)
            return
        self._until[grew] = window.end + max(self._rest[grew], (window.end - change.begin) / _TRIALS)
        self._rest[grew] = min(2 * self._rest[grew], _LONGEST_REST)
        self._set(change.before, f"{brought}, so there are {change.before} again")

    def _consider(self, window: Window) -> None:
        share = window.wait / window.seconds
        waits = f"the loop waits {share:.0%} of its time for {self._awaited}"
        if share < _WAITS:
            self.reason = waits
            self._consider_fewer(window, share)
            return
        self._idle.clear()
        if self.count == 0 and share < _SMALL and window.results > _PIPELINE * window.wait:
            self.reason = f"the pipeline limits the speed, and reading in this process takes {share:.0%} of the time"
            return
        used = window.reading / window.seconds / max(self.count, 1)
        if self.count and used < _BUSY:
            self.reason = f"{waits}, but the {self._unit}s work only {used:.0%} of theirs"
            return
        if window.computes and window.is_full:
            self.reason = f"{waits}, and no core is idle"
            return
        if window.end < self._until[True]:
            return
        limit = min(self._cores if window.computes else self._most, window.limit)
        if limit <= self.count:
            most = f"there is one for each core, {limit}" if limit == self._cores else f"the largest number is {limit}"
            self.reason = f"{waits}; {window.memory if window.limit == limit else most}"
            return
        factor = _FACTOR if window.computes else _LARGE_FACTOR
        own = max(window.seconds - window.wait, 1e-9)  # as long as the loop would take without waiting for samples
        wanted = max(min(math.ceil(window.reading / own), factor * max(self.count, 1)), self.count + 1)
        count = min(wanted, limit)
        if self.count == 0 and count == 1 and share > 1 - _WAITS:  # one worker would be as fast as this process
            self.reason = f"{waits}, and there is one core"
            return
        gain = 1 + min(_GAIN - 1, share / 2)
        work = "computes" if window.computes else "waits for a disk or a network"
        bound = f"; {window.memory}" if count == window.limit < wanted else ""
        self._try(count, gain, f"{waits}, and the work mostly {work}{bound}", window)

    def _consider_fewer(self, window: Window, share: float) -> None:
        if share > _RESTS or self.count == self._least or window.end < self._until[False]:
            self._idle.clear()
            return
        self._idle.append(window.reading / window.seconds)  # number of workers that are busy on average
        if len(self._idle) < _WINDOWS:
            return
        busy = max(self._idle)
        self._idle.clear()
        count = self._least if busy < _RESTS else max(math.ceil(busy / _SPARE), 1)
        if count < self.count:
            self._try(count, _LOSS, f"only {busy:.1f} work at a time", window)

    def _try(self, count: int, gain: float, reason: str, window: Window) -> None:
        change = _Change(self.count, statistics.median(self._rates), gain, [], window.end)
        self._set(count, f"{self._counted(count)} instead of {self.count}: {reason}")
        self._change = change

    def _set(self, count: int, reason: str) -> None:
        self._change = None
        self.count, self.reason = count, reason
        self._rates.clear()
        self._idle.clear()
        self._log(reason)
