"""Throughput of the server compared with a plain torch DataLoader that does the same work with pillow."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import Sampler


@dataclass(frozen=True)
class Comparison:
    """Images per second of both loaders, one figure per round.

    The rounds of the two alternate, and each is compared with its neighbour: other load on the machine slows both, so
    it doesn't affect the ratio.
    """

    ours: tuple[float, ...]
    plain: tuple[float, ...]

    @property
    def ratios(self) -> tuple[float, ...]:
        """Our rate divided by the plain one, one figure per round."""
        return tuple(a / b for a, b in zip(self.ours, self.plain, strict=True))

    @property
    def median_ratio(self) -> float:
        """Median of the ratios."""
        return statistics.median(self.ratios)


class EndlessSampler(Sampler[int]):
    """An endless sequence of random permutations of a dataset's indices."""

    def __init__(self, length: int, seed: int = 0) -> None:
        self.length = length
        self.seed = seed

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self.seed)
        while True:
            yield from torch.randperm(self.length, generator=generator).tolist()


def compare(ours: Iterable[Any], plain: Iterable[Any], *, seconds: float, rounds: int) -> Comparison:
    """Measure two endless loaders in turn.

    Args:
        ours: Yields batches whose first element is a batch of images.
        plain: See `ours`.
        seconds: Length of one measurement of one loader.
        rounds: Number of pairs to measure.
    """
    streams = (iter(ours), iter(plain))
    rates: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds):
        # The order of the two alternates, too.
        for which in (0, 1) if number % 2 == 0 else (1, 0):
            rates[which].append(_rate(streams[which], seconds))
    return Comparison(tuple(rates[0]), tuple(rates[1]))


def _rate(stream: Iterator[Any], seconds: float, warm_up: int = 8) -> float:
    # Batches that were prefetched while the other loader was measured would distort the rate: take them first.
    for _ in itertools.islice(stream, warm_up):
        pass
    count = 0
    begin = time.perf_counter()
    while (elapsed := time.perf_counter() - begin) < seconds:
        count += len(next(stream)[0])
    return count / elapsed
