"""Accounting of the processor time and the elapsed time of work."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

#: Cheap work is measured once in so many batches.
MEASURED_CHEAP = 16


class Cost(NamedTuple):
    """The cost of some work, summed over all threads that did it, in nanoseconds.

    Attributes:
        processor: time on a core.
        elapsed: elapsed time, summed over the threads. It exceeds the processor time when threads wait for a disk, a
            lock, the GIL or a core. It excludes the time before a thread begins.
    """

    processor: int = 0
    elapsed: int = 0

    def plus(self, other: Cost) -> Cost:
        """Return the sum of both costs."""
        return _new(Cost, (self[0] + other[0], self[1] + other[1]))

    def minus(self, other: Cost, count: int = 1) -> Cost:
        """Return the difference of both costs, for doing the same `count` times."""
        return _new(Cost, ((self[0] - other[0]) * count, (self[1] - other[1]) * count))


#: The cost of nothing.
NO_COST = Cost()
_new = tuple.__new__  # faster than the class, which is called for each thread and step of a batch


class _Charged(threading.local):
    """The nanoseconds charged to a thread: the work of other threads, minus the time it waited for them."""

    processor = 0
    elapsed = 0


_charged = _Charged()
_UNMEASURED = nullcontext()


def spent() -> Cost:
    """Return the cost of the calling thread so far, including charges; only differences are meaningful."""
    return _new(Cost, (time.thread_time_ns() + _charged.processor, time.perf_counter_ns() + _charged.elapsed))


def charge(work: Cost, waited: int = 0) -> None:
    """Charge the calling thread for the work of other threads, for which it waited some nanoseconds.

    These don't count as its own work.
    """
    _charged.processor += work.processor
    _charged.elapsed += work.elapsed - waited


class Costs:
    """The cost of each operator of a step for one batch. Any thread may add to it."""

    def __init__(self) -> None:
        self._added: list[tuple[int, int, int]] = []  # `append` is atomic under the GIL

    @contextmanager
    def charge(self, index: int) -> Iterator[None]:
        """Charge what the calling thread spends inside the `with` block to the operator with that index."""
        begin = spent()
        try:
            yield
        finally:
            self._added.append((index, *spent().minus(begin)))

    def timed(self, index: int, run: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that calls `run` and charges its cost to the operator with that index.

        The function is called for every sample, so it is kept fast: it ignores what `run` charges for the work of other
        threads. So `run` must not pass work to other threads.
        """
        processor_time, time_elapsed, add = time.thread_time_ns, time.perf_counter_ns, self._added.append

        def timed(*arguments: Any) -> Any:
            begin = time_elapsed()
            processor = processor_time()
            result = run(*arguments)
            processor = processor_time() - processor
            add((index, processor, time_elapsed() - begin))
            return result

        return timed

    def totals(self) -> dict[int, Cost]:
        """Return the cost of each operator, by index."""
        totals: dict[int, Cost] = defaultdict(Cost)
        for index, processor, elapsed in self._added:
            totals[index] = totals[index].plus(Cost(processor, elapsed))
        return totals


def charged(costs: Costs | None, index: int) -> AbstractContextManager[None]:
    """Return ``costs.charge(index)``, or a context that measures nothing when `costs` is None."""
    return _UNMEASURED if costs is None else costs.charge(index)
