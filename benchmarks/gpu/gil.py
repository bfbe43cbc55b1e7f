"""How much of a loop's Python time a loader takes: the lock of the interpreter, and the loop's own calls.

A loop takes batches at a pace, as a training would, and counts up in between. What it counts less than without a
loader is what a training loop of small batches, which is limited by its own Python, would lose.
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
from benchmarks.measurement import WARM_UP
from benchmarks.rivals.base import Rival
from benchmarks.workload import Setup

BATCH = 64
PACE = 3000.0
"""Samples a second that the loop takes."""

KIND = "paths"
SETTLE = 1.0
"""Seconds that a loader gets to fill its queues before the loop counts alone."""

START = 30.0
COUNTS = 1000
"""How far the loop counts between two looks at the clock."""


@dataclass(frozen=True)
class Lost:
    """What one loader takes.

    Attributes:
        loader: The rival's name.
        batch_size: Samples in a batch.
        pace: Samples a second that arrived.
        share: Of the loop's time, that it could not count.
        milliseconds: The same for each batch.
    """

    loader: str
    batch_size: int
    pace: float
    share: float
    milliseconds: float

    def __str__(self) -> str:
        taken = f"{self.share:6.1%} of its Python time, {self.milliseconds:6.2f} ms a batch"
        return f"  {self.loader:<26}{self.pace:>8,.0f} img/s take the loop {taken}"


def measure_gil(session: Session, rivals: Sequence[Rival], pace: float = PACE) -> Iterator[Lost]:
    """Measures loaders in turn, each in a process of its own.

    Yields:
        What each takes, as far as there was time.
    """
    size = min(BATCH, session.setup.batch_size)
    for rival in rivals:
        what = f"gil, {rival.name}"
        unfit = session.setup.device.split(":")[0] not in rival.devices or rival.unavailable()
        if unfit or not session.budget.allows(what):
            continue
        with session.guarded(what), Caller(what, python_time, rival, grace=START) as caller:
            caller.begin(session.of_kind(KIND, batch_size=size), pace, 2 * session.seconds)
            found: Lost = caller.end(4 * session.seconds)
            yield found


def python_time(rival: Rival, setup: Setup, pace: float, seconds: float) -> Lost:
    """Counts without a loader that works, then beside one."""
    with closing(rival.stream(setup)) as stream:
        for _ in itertools.islice(stream, WARM_UP):
            pass
        time.sleep(SETTLE)
        counted, elapsed = count_until(time.perf_counter() + seconds, at_least=COUNTS)
        alone = counted / elapsed
        begin, counted, batches = time.perf_counter(), 0, 0
        while not batches or time.perf_counter() - begin < seconds:
            next(stream)
            batches += 1
            counted += count_until(begin + batches * setup.batch_size / pace)[0]
        elapsed = time.perf_counter() - begin
    share = 1 - counted / elapsed / alone
    each = elapsed / batches
    return Lost(rival.name, setup.batch_size, setup.batch_size / each, share, share * each * 1e3)


def count_until(end: float, at_least: int = 0) -> tuple[int, float]:
    """Counts until some moment, and as far as it must; gives how far it came, and in what time."""
    begin = now = time.perf_counter()
    counted = 0
    while now < end or counted < at_least:
        for _ in range(COUNTS):
            pass
        counted += COUNTS
        now = time.perf_counter()
    return counted, now - begin


def as_json(lost: Lost) -> dict[str, Any]:
    """What a loader takes, for the document."""
    return asdict(lost)
