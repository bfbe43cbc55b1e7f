"""How long this project takes to start, in this fresh interpreter; ``benchmarks.costs`` runs it.

``first_batch_seconds`` is the time from ``with DALIServer`` to the first batch of pictures; all imports came before.
``workers_start_seconds`` and ``workers_start_torch_seconds`` are the times from ``iter(loader)`` until the last worker
runs its ``worker_init_fn``, of our loader and of torch's.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader

import dali_proxy
import pipeline
from benchmarks.datasets import make_dataset
from benchmarks.graph import make_pipeline
from benchmarks.workload import Setup

MakeLoader = Callable[[Callable[[int], None]], Any]


def first_batch_seconds(setup: Setup) -> float:
    """Starts a server and loads one batch."""
    pipe = make_pipeline(pipeline, setup)
    begin = time.perf_counter()
    with dali_proxy.DALIServer(pipe) as server:
        dataset = make_dataset(setup, server.proxy)
        batches = iter(dali_proxy.DataLoader(server, dataset, setup.batch_size, num_workers=setup.workers))
        next(batches)
        return time.perf_counter() - begin


def workers_start_seconds(workers: int, make_loader: MakeLoader) -> float:
    """Starts the workers of a loader. Clocks of processes agree on Linux, so workers note when they began."""
    moments = torch.zeros(workers, dtype=torch.float64).share_memory_()

    def note(worker: int) -> None:
        moments[worker] = time.perf_counter()

    loader = make_loader(note)
    begin = time.perf_counter()
    batches = iter(loader)
    for _ in range(2 * workers):  # a batch of each worker, at least
        next(batches)
    return float(moments.max()) - begin


def main() -> None:
    """Measures everything once and prints it as JSON."""
    folder, (batch_size, workers, threads, torch_first) = Path(sys.argv[1]), map(int, sys.argv[2:])
    pictures = Setup("bytes", folder, batch_size, workers, threads)
    arrays = Setup("arrays-64B", folder, batch_size, workers, threads)
    times = {"first_batch_seconds": first_batch_seconds(pictures)}
    with dali_proxy.DALIServer(make_pipeline(pipeline, arrays)) as server:

        def ours(note: Callable[[int], None]) -> Any:
            dataset = make_dataset(arrays, server.proxy)
            return dali_proxy.DataLoader(server, dataset, batch_size, num_workers=workers, worker_init_fn=note)

        def plain(note: Callable[[int], None]) -> Any:
            dataset = make_dataset(arrays, torch.from_numpy)
            return DataLoader(dataset, batch_size, num_workers=workers, worker_init_fn=note)

        turns: list[tuple[str, MakeLoader]] = [("workers_start_seconds", ours), ("workers_start_torch_seconds", plain)]
        for name, make_loader in reversed(turns) if torch_first else turns:
            times[name] = workers_start_seconds(workers, make_loader)
    print(json.dumps(times))


if __name__ == "__main__":
    main()
