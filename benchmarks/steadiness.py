"""Whether the cost of a sample grows with the length of the dataset, with epochs, or with the number of batches."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import Dataset

from benchmarks.graph import make_pipeline
from benchmarks.measurement import WARM_UP, tree_cpu
from benchmarks.workload import Setup

if TYPE_CHECKING:
    from dali_proxy import DALIServer

Point = dict[str, Any]


class Tiny(Dataset[Any]):
    """As many 64-byte arrays as one likes: all that is left is what this project does for a sample."""

    def __init__(self, length: int, proxy: Callable[[torch.Tensor], Any]) -> None:
        self.length = length
        self.proxy = proxy
        self.sample = torch.zeros(64, dtype=torch.uint8)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return self.proxy(self.sample)


def cost_by_length(setup: Setup, lengths: Iterable[int], rounds: int, seconds: float) -> list[Point]:
    """Processor time for a sample in datasets of some lengths; short ones begin anew while they are measured."""
    points = []
    for length in lengths:
        with _server(setup) as server:
            batches = _endless(_loader(server, setup, length))
            _take(batches, WARM_UP)
            points.append({"x": length, "us": [_cost(batches, setup, seconds) for _ in range(rounds)]})
    return points


def cost_by_epoch(setup: Setup, epochs: int, batches: int) -> list[Point]:
    """Processor time for a sample in each of some epochs, with the same workers."""
    length = batches * setup.batch_size
    points = []
    with _server(setup) as server:
        loader = _loader(server, setup, length)
        for epoch in range(epochs + 1):
            begin = tree_cpu()
            for _ in loader:
                pass
            if epoch:  # the first starts processes
                points.append({"x": epoch, "us": [_microseconds(tree_cpu() - begin, length)]})
    return points


def cost_by_batch(setup: Setup, windows: int, batches: int) -> list[Point]:
    """Processor time for a sample in each of some windows of one long epoch."""
    points = []
    with _server(setup) as server:
        stream = iter(_loader(server, setup, (windows * batches + WARM_UP) * setup.batch_size))
        _take(stream, WARM_UP)
        for window in range(1, windows + 1):
            begin = tree_cpu()
            _take(stream, batches)
            cost = _microseconds(tree_cpu() - begin, batches * setup.batch_size)
            points.append({"x": window * batches, "us": [cost]})
        _take(stream, 1)  # the end of the epoch
    return points


def growth(points: list[Point]) -> float:
    """How much a sample costs in the last third of the points, in units of the first third: medians of all rounds."""
    third = max(len(points) // 3, 1)
    first, last = (
        torch.tensor([cost for point in part for cost in point["us"]]).median().item()
        for part in (points[:third], points[-third:])
    )
    return last / first


def _server(setup: Setup) -> DALIServer:
    # Imported here, because this module is imported in the process of every rival.
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
