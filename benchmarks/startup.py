"""Measure the duration of a start in a fresh interpreter, as in a user's script; ``benchmarks.costs`` runs it.

``python -m benchmarks.startup first-batch FOLDER BATCH_SIZE WORKERS THREADS`` prints the seconds from
``with DALIServer`` to the first batch of images; all imports came before. With ``workers-ours`` or ``workers-torch``
it prints those from ``iter(loader)`` until the last worker runs its ``worker_init_fn``: for the first time, and the
median of later times.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from benchmarks.workload import EPOCH, Setup

LATER_TIMES = 5

MakeLoader = Callable[[Callable[[int], None]], Any]


class TinyArrays(Dataset[tuple[Any, int]]):
    """Pairs of the same 64 bytes and an index. It imports nothing that the loaders don't import."""

    def __init__(self, transform: Callable[[np.ndarray], Any]) -> None:
        self.transform = transform
        self.array = np.zeros((8, 8), np.uint8)

    def __len__(self) -> int:
        return EPOCH

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self.transform(self.array), index


def first_batch(setup: Setup) -> list[float]:
    """Start a server and load one batch."""
    import dali_proxy
    import pipeline
    from benchmarks.datasets import make_dataset
    from benchmarks.graph import make_pipeline

    pipe = make_pipeline(pipeline, setup)
    begin = time.perf_counter()
    with dali_proxy.DALIServer(pipe) as server:
        dataset = make_dataset(setup, server.proxy)
        batches = iter(dali_proxy.DataLoader(server, dataset, batch_size=setup.batch_size, num_workers=setup.workers))
        next(batches)
        return [time.perf_counter() - begin]


def workers_ours(setup: Setup) -> list[float]:
    """Start workers of our loader, the first time and later."""
    import dali_proxy
    import pipeline
    from benchmarks.graph import make_pipeline

    with dali_proxy.DALIServer(make_pipeline(pipeline, setup)) as server:

        def make_loader(note: Callable[[int], None]) -> Any:
            dataset = TinyArrays(server.proxy)
            return dali_proxy.DataLoader(
                server, dataset, setup.batch_size, num_workers=setup.workers, worker_init_fn=note
            )

        return _starts(setup.workers, make_loader)


def workers_torch(setup: Setup) -> list[float]:
    """Start the workers of a loader, the first time and later."""

    def make_loader(note: Callable[[int], None]) -> Any:
        dataset = TinyArrays(torch.from_numpy)
        return DataLoader(dataset, setup.batch_size, num_workers=setup.workers, worker_init_fn=note)

    return _starts(setup.workers, make_loader)


def _starts(workers: int, make_loader: MakeLoader) -> list[float]:
    times = [_start(workers, make_loader) for _ in range(1 + LATER_TIMES)]
    return [times[0], statistics.median(times[1:])]


def _start(workers: int, make_loader: MakeLoader) -> float:
    """Start the workers of a loader. Clocks of processes agree on Linux, so workers record when they began."""
    moments = torch.zeros(workers, dtype=torch.float64).share_memory_()

    def note(worker: int) -> None:
        moments[worker] = time.perf_counter()

    loader = make_loader(note)
    begin = time.perf_counter()
    batches = iter(loader)
    for _ in itertools.islice(batches, 2 * workers):  # at least one batch per worker
        pass
    return float(moments.max()) - begin


MEASURED = {
    "first-batch": ("bytes", first_batch),
    "workers-ours": ("arrays-64B", workers_ours),
    "workers-torch": ("arrays-64B", workers_torch),
}
"""What can be measured: the kind of samples, and the function."""


def main() -> None:
    """Measure once and print seconds."""
    kind, measure = MEASURED[sys.argv[1]]
    batch_size, workers, threads = map(int, sys.argv[3:])
    print(*measure(Setup(kind, Path(sys.argv[2]), batch_size, workers, threads)))


if __name__ == "__main__":
    main()
