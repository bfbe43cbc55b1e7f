"""Measure a stream of batches: its rate and its costs."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Sized
from dataclasses import dataclass

import psutil
import torch

MB = 1 << 20

WARM_UP = 10
"""Number of batches to discard before the clock starts: batches that were prefetched while another rival ran."""

GLANCE = 0.05
"""Seconds between two readings of the CPU time, which is counted in steps of 0.01."""

GLANCES = 3
"""Number of consecutive idle readings after which a loader counts as idle: it has filled its queues."""

IDLE = 0.02
"""CPU seconds between two readings that many idle processes use for polling."""

PATIENCE = 4.0
"""Seconds after which the wait for idle processes ends."""


@dataclass(frozen=True)
class Measurement:
    """One measurement of one rival.

    Attributes:
        samples: Number of samples that arrived.
        seconds: Duration.
        cpu_seconds: CPU time that this process and its descendants used meanwhile, user and system.
        other_cpu_seconds: CPU time that the rest of the machine used: noise.
    """

    samples: int
    seconds: float
    cpu_seconds: float
    other_cpu_seconds: float

    @property
    def rate(self) -> float:
        """Samples per second."""
        return self.samples / self.seconds

    @property
    def cpu_per_sample(self) -> float:
        """Seconds of CPU time per sample."""
        return self.cpu_seconds / self.samples


def measure(
    stream: Iterator[tuple[Sized, object]],
    seconds: float,
    on_begin: Callable[[], None] = lambda: None,
    warm_up: int = WARM_UP,
) -> Measurement:
    """Take batches for a given time.

    Args:
        stream: An endless stream of batches: their samples, or anything of the same length, and something else.
        seconds: Duration. The batch in flight at the end is included.
        on_begin: Called when the queues have filled up, before the clock starts.
        warm_up: Number of batches to discard before the clock starts.
    """
    for _ in itertools.islice(stream, warm_up):
        pass
    _synchronize()
    on_begin()
    samples = 0
    tree, machine = tree_cpu(), machine_cpu()
    begin = time.perf_counter()
    while not samples or time.perf_counter() - begin < seconds:
        batch, _ = next(stream)
        samples += len(batch)
    _synchronize()
    elapsed = time.perf_counter() - begin
    used = tree_cpu() - tree
    return Measurement(samples, elapsed, used, max(0.0, machine_cpu() - machine - used))


def tree_cpu() -> float:
    """Return the CPU seconds of this process and its descendants, also of those that have ended."""
    me = psutil.Process()
    total = 0.0
    for process in (me, *me.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def tree_memory(root: psutil.Process) -> tuple[float, int]:
    """Return the memory of a process and its descendants in MB, shared pages divided, and their number."""
    sizes = [process.memory_full_info().pss for process in (root, *root.children(recursive=True))]
    return round(sum(sizes) / MB, 1), len(sizes)


def settle(used: Callable[[], float] = tree_cpu) -> None:
    """Wait until this process and its descendants are idle, so that their prefetching doesn't disturb the next rival.

    Args:
        used: Function that returns the CPU seconds that they have used.
    """
    end = time.perf_counter() + PATIENCE
    before, still = -math.inf, 0
    while still < GLANCES and time.perf_counter() < end:
        now = used()
        still = still + 1 if now - before <= IDLE else 0
        before = now
        time.sleep(GLANCE)


def machine_cpu() -> float:
    """Return the seconds that all cores of this machine were busy since it started."""
    times = psutil.cpu_times()
    return times.user + times.nice + times.system


def _synchronize() -> None:
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()
