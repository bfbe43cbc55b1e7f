"""Measure whether the cost of a sample grows with the dataset's length, with epochs, or with the number of batches."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import Dataset

from benchmarks.graph import make_pipeline
from benchmarks.measurement import WARM_UP, tree_cpu
from benchmarks.workload import Setup

if TYPE_CHECKING:
    from dali_proxy import DALIServer

Point = dict[str, Any]

TICK = 0.01
"""Resolution of the system's CPU times, in seconds."""

GROWTH = 1.1
"""Largest ratio of a sample's cost at the end to that at the beginning that doesn't count as growth."""

PIECES = 4
"""Number of turns of two loaders that are compared."""


class Tiny(Dataset[Any]):
    """Any number of 64-byte arrays: only this project's own cost per sample remains."""

    def __init__(self, length: int, proxy: Callable[[torch.Tensor], Any]) -> None:
        self.length = length
        self.proxy = proxy
        self.sample = torch.zeros(64, dtype=torch.uint8)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return self.proxy(self.sample)


def cost_by_length(setup: Setup, lengths: Iterable[int], rounds: int, seconds: float) -> list[Point]:
    """Measure CPU time per sample in datasets of several lengths, in turn; short ones restart during a turn."""
    points: list[Point] = []
    with ExitStack() as stack:
        streams = []
        for length in lengths:
            streams.append(_endless(_loader(stack.enter_context(_server(setup)), setup, length)))
            _take(streams[-1], WARM_UP)
            points.append({"x": length, "us": []})
        for _ in range(rounds):
            for point, stream in zip(points, streams, strict=True):
                point["us"].append(_cost(stream, setup, seconds))
    return points


def cost_by_epoch(setup: Setup, epochs: int, batches: int) -> list[Point]:
    """Measure CPU time per sample in each of several epochs, with the same workers, and with new workers."""
    length = batches * setup.batch_size
    points = []
    with _server(setup) as server:
        loader = _loader(server, setup, length)
        _take(iter(loader), batches)  # the first epoch starts processes
        for epoch in range(1, epochs + 1):
            with _server(setup) as fresh_server:
                fresh = _loader(fresh_server, setup, length)
                _take(iter(fresh), WARM_UP)
                points.append(_in_turn(epoch, _pieces(loader, setup, batches), _pieces(fresh, setup, batches)))
    return points


def cost_by_batch(setup: Setup, windows: int, batches: int) -> list[Point]:
    """Measure CPU time per sample in each of several windows of one long epoch, and of a new one."""
    points = []
    with _server(setup) as server:
        stream = iter(_loader(server, setup, (windows * batches + WARM_UP) * setup.batch_size))
        _take(stream, WARM_UP)
        for window in range(1, windows + 1):
            with _server(setup) as fresh_server:
                fresh = iter(_loader(fresh_server, setup, (2 * batches + WARM_UP) * setup.batch_size))
                _take(fresh, WARM_UP)
                old, new = _pieces(stream, setup, batches), _pieces(fresh, setup, batches)
                points.append(_in_turn(window * batches, old, new))
        _take(stream, 1)  # the end of the epoch
    return points


def growth(points: list[Point]) -> float:
    """Return the cost of a sample in the last third of the points, divided by that in the first third: medians.

    Costs are relative to those of a loader that just began, measured in turn, or of all points in one round: other
    load on the machine slows both.
    """
    first, last = _thirds(points)
    return statistics.median(last) / statistics.median(first)


def has_grown(points: list[Point]) -> bool:
    """Return whether the cost grew by more than noise: the last third's minimum exceeds the first's maximum."""
    first, last = _thirds(points)
    return growth(points) > GROWTH and min(last) > max(first)


def _thirds(points: list[Point]) -> tuple[list[float], list[float]]:
    rounds = [statistics.mean(costs) for costs in zip(*(point["us"] for point in points), strict=True)]
    costs = [sum(point["us"]) / sum(point.get("fresh_us", rounds)) for point in points]
    third = max(len(points) // 3, 1)
    return costs[:third], costs[-third:]


def _pieces(source: Iterable[Any], setup: Setup, batches: int) -> Iterator[float]:
    """Take a number of batches, and measure them in chunks; for a loader, include its start and its end."""
    sizes = [len(part) for part in np.array_split(np.arange(batches), min(PIECES, batches))]
    begin = tree_cpu()
    stream = source if isinstance(source, Iterator) else iter(source)
    for number, size in enumerate(sizes, 1):
        _take(stream, size + (number == len(sizes) and stream is not source))
        yield _microseconds(max(tree_cpu() - begin, TICK), size * setup.batch_size)
        begin = tree_cpu()


def _in_turn(x: int, old: Iterator[float], fresh: Iterator[float]) -> Point:
    costs = list(zip(old, fresh, strict=True))
    return {"x": x, "us": [ours for ours, _ in costs], "fresh_us": [theirs for _, theirs in costs]}


def _server(setup: Setup) -> DALIServer:
    # Imported here, because the process of every rival imports this module.
    import dali_proxy
    import pipeline

    return dali_proxy.DALIServer(make_pipeline(pipeline, setup))


def _loader(server: DALIServer, setup: Setup, length: int) -> Any:
    import dali_proxy

    dataset = Tiny(length, server.proxy)
    return dali_proxy.DataLoader(server, dataset, setup.batch_size, num_workers=setup.workers, persistent_workers=True)


def _endless(loader: Any) -> Iterator[Any]:
    while True:
        yield from loader


def _cost(batches: Iterator[Any], setup: Setup, seconds: float) -> float:
    begin, end, count = tree_cpu(), time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        next(batches)
        count += 1
    return _microseconds(tree_cpu() - begin, count * setup.batch_size)


def _take(batches: Iterator[Any], count: int) -> None:
    for _ in itertools.islice(batches, count):
        pass


def _microseconds(seconds: float, samples: int) -> float:
    return round(seconds / samples * 1e6, 2)
