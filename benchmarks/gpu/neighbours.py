"""Train with batches that stay on the GPU, while other processes only count.

These processes share only the machine's cores, caches and clocks with the training. A loader that uses as many cores
can't slow down training less than they do: where its own Python code limits the speed, that may be a lot.
"""

from __future__ import annotations

import itertools
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch

from benchmarks.child import Caller
from benchmarks.gpu.session import Session
from benchmarks.gpu.trainer import trainer_of
from benchmarks.workload import Setup

BATCH_SIZES = (64, 32)
NEIGHBOURS = (4, 8)
"""Numbers of processes that run during training: as many cores as loaders use at its speed, and more."""

ROUNDS = 3
START = 60.0
"""Seconds that creating the network and choosing cuDNN's kernels may take."""


@dataclass(frozen=True)
class Beside:
    """Training with and without a number of neighbours.

    Attributes:
        batch_size: Samples per batch.
        neighbours: Number of processes that count.
        alone: Samples per second without them, before each round.
        rates: Samples per second with them.
    """

    batch_size: int
    neighbours: int
    alone: tuple[float, ...]
    rates: tuple[float, ...]

    @property
    def share(self) -> float:
        """The median over the rounds of the speed relative to the speed alone."""
        return statistics.median(rate / alone for rate, alone in zip(self.rates, self.alone, strict=True))

    def __str__(self) -> str:
        alone = f"{min(self.alone):,.0f}..{max(self.alone):,.0f}"
        return f"  batch {self.batch_size:>4}, {self.neighbours:>2} processes{self.share:>8.1%} of {alone} img/s"


def measure_neighbours(session: Session, network: str = "resnet50") -> Iterator[Beside]:
    """Measure every batch size with each number of neighbours, as long as time remains."""
    with Caller("training beside others", train_beside, network, grace=START) as caller:
        for batch_size, neighbours in itertools.product(BATCH_SIZES, NEIGHBOURS):
            what = f"neighbours, batch {batch_size}, {neighbours} processes"
            if not session.budget.allows(what):
                continue
            with session.guarded(what):
                caller.begin(session.of_kind("paths", batch_size=batch_size), neighbours, session.seconds)
                found: Beside = caller.end(4 * ROUNDS * session.seconds)
                yield found


def train_beside(network: str, setup: Setup, neighbours: int, seconds: float) -> Beside:
    """Train alone and while other processes count, in turn."""
    trainer = trainer_of(setup.device, network)
    batches = itertools.cycle([torch.randn(setup.batch_size, 3, 224, 224, device=setup.device) for _ in range(2)])
    trainer.rate(batches, seconds / 2, warm_up=8)
    alone, rates = [], []
    for _ in range(ROUNDS):
        alone.append(trainer.rate(batches, seconds, warm_up=2).rate)
        with counting(neighbours):
            rates.append(trainer.rate(batches, seconds, warm_up=2).rate)
    trainer.free()
    return Beside(setup.batch_size, neighbours, tuple(alone), tuple(rates))


@contextmanager
def counting(processes: int) -> Iterator[None]:
    """Run so many processes that only count."""
    with ExitStack() as stack:
        for _ in range(processes):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(process.kill)
        yield


def as_json(found: Sequence[Beside]) -> list[dict[str, Any]]:
    """Return the results for the document."""
    return [{**asdict(one), "share": round(one.share, 4)} for one in found]
