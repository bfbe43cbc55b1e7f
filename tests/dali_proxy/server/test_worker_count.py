"""The choice of the number of dataset workers, beside simulated loops whose true rates are known."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from dali_proxy._server.worker_count import Window, WorkerCount

SECONDS = 30.0  # in which the number must be found
COUNTS = (0, 1, 2, 4, 8, 16)


@dataclass
class Loop:
    """A loop, in seconds for each batch: of the training, of reading, and of the pipeline."""

    training: float
    reading: float
    pipeline: float = 0.001
    computes: bool = True
    cores: int = 2
    limit: int = 100
    noise: float = 0.0
    now: float = 0.0
    changes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.workers = WorkerCount(self.cores, 32, self.changes.append)
        self._random = random.Random(1)

    def interval(self, count: int) -> float:
        """Return the time between batches with so many workers."""
        if count == 0:
            return max(self.training + self.reading, self.pipeline)
        at_once = min(count, self.cores) if self.computes else count
        return max(self.training, self.reading / at_once, self.pipeline)

    def run(self, seconds: float) -> list[int]:
        """Return the number of workers in each window."""
        counts, end = [], self.now + seconds
        while self.now < end:
            count = self.workers.count
            interval = self.interval(count) * self._random.uniform(1 - self.noise, 1 + self.noise)
            batches = max(round(1.0 / interval), 1)
            waits = interval - self.training
            if count == 0:
                wait = self.reading
            else:
                at_once = min(count, self.cores) if self.computes else count
                wait = waits if self.reading / at_once > max(self.training, self.pipeline) else 0.0
            self.now += interval * batches
            processor = self.reading if self.computes else 0.01 * self.reading
            results = max(waits - wait, 0.0)
            spent = (interval * batches, wait * batches, results * batches, self.reading * batches, processor * batches)
            seconds, wait, results, reading, processor = spent
            window = Window(self.now, batches, seconds, wait, results, reading, processor, self.limit)
            self.workers.observe(window)
            counts.append(count)
        return counts

    def best(self) -> float:
        return min(self.interval(count) for count in COUNTS)


@pytest.mark.parametrize("noise", [0.0, 0.05])
@pytest.mark.parametrize(
    "loop",
    [
        Loop(0.0, 0.0005, 0.05),  # the pipeline limits
        Loop(0.05, 0.0002),  # the training limits, and reading costs nothing
        Loop(0.05, 0.02),
        Loop(0.01, 0.05),
        Loop(0.0, 0.16),
        Loop(0.0, 0.16, cores=16),
        Loop(0.02, 0.16, cores=16),
        Loop(0.0, 0.16, computes=False),
        Loop(0.03, 0.8, computes=False),
    ],
    ids=str,
)
def test_loop_reaches_the_rate_of_the_best_number(loop: Loop, noise: float) -> None:
    loop.noise = noise
    loop.run(SECONDS)
    counts = loop.run(SECONDS)
    mean = sum(loop.interval(count) for count in counts) / len(counts)
    assert loop.best() > 0.95 * mean


def test_number_is_no_larger_than_needed() -> None:
    for loop, most in ((Loop(0.05, 0.02), 1), (Loop(0.05, 0.16, cores=16), 5), (Loop(0.05, 0.4, computes=False), 9)):
        loop.run(SECONDS)
        assert 1 <= loop.workers.count <= most


def test_number_settles() -> None:
    loop = Loop(0.0, 0.16, noise=0.03)
    loop.run(SECONDS)
    before = len(loop.changes)
    loop.run(600)
    assert len(loop.changes) - before < 15, "each failed attempt doubles the time until the next one"


def test_workers_that_compute_are_no_more_than_cores() -> None:
    loop = Loop(0.0, 0.16, cores=3)
    assert max(loop.run(120)) == 3


def test_memory_limits_the_number_at_once() -> None:
    loop = Loop(0.0, 0.16, computes=False)
    loop.run(SECONDS)
    assert loop.workers.count == 32
    loop.limit = 5
    loop.run(1)
    assert loop.workers.count == 5
    assert "memory" in loop.workers.reason
    assert max(loop.run(SECONDS)) == 5


def test_workers_leave_when_fewer_do() -> None:
    loop = Loop(0.0, 0.16, computes=False)
    loop.run(SECONDS)
    loop.training = 0.1
    loop.run(SECONDS)
    assert loop.workers.count == 2
    assert "instead of 32" in " ".join(loop.changes)
    loop.reading = 0.0001
    loop.run(SECONDS)
    assert loop.workers.count == 0


def test_growth_that_brings_nothing_is_undone_and_says_so() -> None:
    loop = Loop(0.0, 0.16)
    loop.interval = lambda count: 0.16  # type: ignore[method-assign]  # a lock that all processes share
    counts = loop.run(10)
    assert max(counts) == 2
    assert loop.workers.count == 0
    assert (
        loop.workers.reason == "2 workers instead of 0: the loop takes 1.00 times as many batches, so there are 0 again"
    )
    assert max(loop.run(8)) == 0


def observed(count: WorkerCount, windows: int, begin: float = 0.0, **other: float) -> float:
    """Let a loop that is always as fast run. Return the time of its end."""
    numbers = {
        "batches": 100,
        "seconds": 1.0,
        "wait": 0.0,
        "results": 0.0,
        "reading": 0.5,
        "processor": 0.5,
        "limit": 16,
    }
    for number in range(windows):
        count.observe(Window(end=begin + number + 1, **{**numbers, **other}))  # type: ignore[arg-type]
    return begin + windows


def test_threads_that_training_leaves_idle_end_and_come_back() -> None:
    changes: list[str] = []
    threads = WorkerCount(16, 16, changes.append, 16, threads=True)
    end = observed(threads, 20, reading=2.5)
    assert threads.count == 3
    assert "3 threads instead of 16: only 2.5 work at a time" in changes
    for _ in range(90):  # now the pipeline limits the speed, in proportion to its threads
        count = float(threads.count)
        end = observed(threads, 1, end, reading=count, processor=count, wait=0.5, batches=10 * count)
    assert threads.count == 16


def test_last_thread_stays() -> None:
    threads = WorkerCount(16, 16, count=16, threads=True)
    observed(threads, 20, reading=0.0, processor=0.0)
    assert threads.count == 1


def test_no_worker_starts_for_work_that_computes_without_an_idle_core() -> None:
    full = WorkerCount(2, 32)
    observed(full, 20, wait=0.2, reading=0.2, processor=0.2, idle=0.02, others=0.0)
    assert full.count == 0
    assert full.reason == "the loop waits 20% of its time for samples, and no core is idle"
    waits = WorkerCount(2, 32)
    observed(waits, 1, wait=0.2, reading=0.2, processor=0.01, idle=0.02, others=0.0)
    assert waits.count > 0, "a worker that waits needs no core"
    busy = WorkerCount(2, 32)
    observed(busy, 1, wait=0.2, reading=0.2, processor=0.2, idle=0.0, others=0.6)
    assert busy.count > 0, "the cores that other programs use say nothing"


def test_trials_that_bring_nothing_take_a_small_part_of_the_time() -> None:
    count = WorkerCount(2, 32)
    slow, changes = 60.0, 0  # seconds that workers need to start
    now, before = 0.0, 0
    for _ in range(2000):
        now += slow if count.count != before else 1.0
        changes += count.count > before
        before = count.count
        observed(count, 1, now - 1.0, wait=0.2, reading=0.2, processor=0.2, limit=1)
    assert changes * slow < 0.2 * now
