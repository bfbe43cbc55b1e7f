"""Measure how much Python time a loader takes from a loop: the GIL, and the loop's own calls.

The loop takes batches at a fixed rate, as a training loop does, and counts in between. The difference from its count
without a loader is the time that a training loop with small batches, which its own Python code limits, would lose.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.child import Caller
from benchmarks.gpu.session import Session
from benchmarks.gpu.training import kind_for
from benchmarks.measurement import WARM_UP
from benchmarks.rivals.base import Rival
from benchmarks.workload import Setup

BATCH = 64
PACE = 3000.0
"""Samples per second that the loop takes."""

SETTLE = 1.0
"""Seconds in which a loader fills its queues before the loop counts alone."""

START = 30.0
COUNTS = 1000
"""Number of increments between two checks of the clock."""


@dataclass(frozen=True)
class Lost:
    """The time that one loader takes.

    Attributes:
        loader: Name of the rival.
        batch_size: Samples per batch.
        pace: Samples per second that arrived.
        share: Fraction of its count that the loop loses because of the loader.
        milliseconds: The same per batch.
        taking: Milliseconds per batch in which the loop takes the batch.
        waiting: Milliseconds per batch in which the loop is ready to count but doesn't run: other threads hold the GIL
            or the core.
        slower: Share of speed that the loop lacks while it runs, because busy cores share caches and clocks. No
            loader that works on the same machine can avoid it.
    """

    loader: str
    batch_size: int
    pace: float
    share: float
    milliseconds: float
    taking: float
    waiting: float
    slower: float

    def __str__(self) -> str:
        parts = f"{self.taking:.2f} taking it, {self.waiting:.2f} waiting, and cores {self.slower:.1%} slower"
        taken = f"{self.share:6.1%} of its Python time, {self.milliseconds:5.2f} ms a batch ({parts})"
        return f"  {self.loader:<26}{self.pace:>8,.0f} img/s take the loop {taken}"


def measure_gil(session: Session, rivals: Sequence[Rival], pace: float = PACE) -> Iterator[Lost]:
    """Measure loaders in turn, each in a separate process.

    Yields:
        The result of each loader, as long as time remains.
    """
    size = min(BATCH, session.setup.batch_size)
    for rival in rivals:
        what = f"gil, {rival.name}"
        unfit = session.setup.device.split(":")[0] not in rival.devices or rival.unavailable()
        if unfit or not session.budget.allows(what):
            continue
        with session.guarded(what), Caller(what, python_time, rival, grace=START) as caller:
            caller.begin(session.of_kind(kind_for(rival), batch_size=size), pace, 2 * session.seconds)
            found: Lost = caller.end(4 * session.seconds)
            yield found


def python_time(rival: Rival, setup: Setup, pace: float, seconds: float) -> Lost:
    """Count without an active loader, then with one."""
    with closing(rival.stream(setup)) as stream:
        for _ in itertools.islice(stream, WARM_UP):
            pass
        time.sleep(SETTLE)
        alone = count_until(time.perf_counter() + seconds, at_least=COUNTS)
        begin, batches, taking, beside = time.perf_counter(), 0, 0.0, Counted(0, 0.0, 0.0)
        while not batches or time.perf_counter() - begin < seconds:
            before = time.perf_counter()
            next(stream)
            taking += time.perf_counter() - before
            batches += 1
            beside += count_until(begin + batches * setup.batch_size / pace)
        elapsed = time.perf_counter() - begin
    share = 1 - beside.count / elapsed / (alone.count / alone.elapsed)
    each = elapsed / batches
    waiting = max(0.0, beside.elapsed - beside.running)
    slower = 1 - (beside.count / max(beside.running, 1e-9)) / (alone.count / alone.running)
    return Lost(
        rival.name, setup.batch_size, setup.batch_size / each, share, share * each * 1e3, taking / batches * 1e3,
        waiting / batches * 1e3, slower,
    )  # fmt: skip


@dataclass(frozen=True)
class Counted:
    """The count of a loop, its duration, and the seconds in which it ran."""

    count: int
    elapsed: float
    running: float

    def __add__(self, other: Counted) -> Counted:
        return Counted(self.count + other.count, self.elapsed + other.elapsed, self.running + other.running)


def count_until(end: float, at_least: int = 0) -> Counted:
    """Count until the given time, and at least to ``at_least``."""
    begin = now = time.perf_counter()
    running = time.thread_time()
    counted = 0
    while now < end or counted < at_least:
        for _ in range(COUNTS):
            pass
        counted += COUNTS
        now = time.perf_counter()
    return Counted(counted, now - begin, time.thread_time() - running)


def as_json(lost: Lost) -> dict[str, Any]:
    """Return the result of a loader for the document."""
    return asdict(lost)
