"""What work costs: processor time, and the time that passes for the threads that do it."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

__all__ = ["Cost", "Costs", "charge", "charged", "spent"]


class Cost(NamedTuple):
    """What some work cost all threads that did it, in nanoseconds.

    Attributes:
        processor: time on a core.
        elapsed: time that passed meanwhile, summed over the threads. It is longer where they wait: for a disk, a lock,
            the GIL or a core. Time before a thread begins isn't in it.
    """

    processor: int = 0
    elapsed: int = 0

    def plus(self, other: Cost) -> Cost:
        """Return both together."""
        return Cost(self.processor + other.processor, self.elapsed + other.elapsed)

    def minus(self, other: Cost) -> Cost:
        """Return what this has more than another."""
        return Cost(self.processor - other.processor, self.elapsed - other.elapsed)


class _Charged(threading.local):
    """What was charged to a thread, in nanoseconds: the work of other threads, less the time it waited for them."""

    processor = 0
    elapsed = 0


_charged = _Charged()


def spent() -> Cost:
    """Return what the calling thread has spent, with what was charged to it; only differences have a meaning."""
    return Cost(time.thread_time_ns() + _charged.processor, time.perf_counter_ns() + _charged.elapsed)


def charge(work: Cost, waited: int = 0) -> None:
    """Charge the calling thread with the work of others.

    Args:
        work: what the others have spent.
        waited: nanoseconds that it waited for them, which are not its own work.
    """
    _charged.processor += work.processor
    _charged.elapsed += work.elapsed - waited


class Costs:
    """What each operator of a step costs while one batch runs. Any thread may add to it."""

    def __init__(self) -> None:
        self._added: list[tuple[int, int, int]] = []  # `append` is atomic under the GIL

    @contextmanager
    def of(self, index: int) -> Iterator[None]:
        """Charge the operator with that index for what a block costs the calling thread."""
        begin = spent()
        try:
            yield
        finally:
            self._added.append((index, *spent().minus(begin)))

    def timed(self, index: int, run: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that does as `run`, and charges the operator with that index for it.

        It is called for each sample: the function must not hand over work to other threads.
        """
        processor_time, time_elapsed, add = time.thread_time_ns, time.perf_counter_ns, self._added.append

        def timed(*arguments: Any) -> Any:
            begin = time_elapsed()
            processor = processor_time()
            made = run(*arguments)
            processor = processor_time() - processor
            add((index, processor, time_elapsed() - begin))
            return made

        return timed

    def totals(self) -> dict[int, Cost]:
        """Return what each operator has cost, by index."""
        totals: dict[int, Cost] = defaultdict(Cost)
        for index, processor, elapsed in self._added:
            totals[index] = totals[index].plus(Cost(processor, elapsed))
        return totals


def charged(costs: Costs | None, index: int) -> AbstractContextManager[None]:
    """Return ``costs.of(index)``, or a block that measures nothing when there are no costs to measure."""
    return nullcontext() if costs is None else costs.of(index)
