"""Measure what slow samples cost: 5 % of them take ten times as long as the others, beside samples of the mean cost.

``python -m benchmarks.slow_samples`` runs a few epochs of both with the same dataset workers. The total time that
reading takes is the same, so a loader whose slow samples hold up no others has the same rate. The samples only wait
(sleep), so other programs on the machine hardly matter. In the first epoch, nothing is known of the samples.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

import dali_proxy
from benchmarks.machine import describe_machine
from dali_proxy.pipeline import fn, pipeline_def

SHARE, FACTOR = 0.05, 10.0


class Sleeping(Dataset[Any]):
    """Samples that take some time to read: all the same, or a few of them longer."""

    def __init__(self, seconds: list[float], proxy: Any) -> None:
        self.seconds, self.proxy = seconds, proxy

    def __len__(self) -> int:
        return len(self.seconds)

    def __getitem__(self, index: int) -> Any:
        time.sleep(self.seconds[index])
        return self.proxy(np.full(16, index % 256, np.uint8)), np.random.randint(1 << 30)


@pipeline_def
def noisy() -> Any:
    """Draw a random number for each sample."""
    return fn.external_source(name="x") + fn.random.uniform(range=(0.0, 1.0))


def costs(count: int, seconds: float) -> tuple[list[float], list[float]]:
    """Return the seconds of samples of which a few are slow, and as many times their mean."""
    slow = np.random.default_rng(1).random(count) < SHARE
    each = np.where(slow, FACTOR * seconds, seconds)
    return each.tolist(), [float(each.mean())] * count


def epochs(seconds: list[float], batch_size: int, num_workers: int, count: int, **options: Any) -> list[Any]:
    """Return the rate of each epoch in samples per second, and a hash of what the loop got."""
    pipeline = noisy(batch_size=batch_size, num_threads=1, device_id=None, seed=1)
    found = []
    with dali_proxy.DALIServer(pipeline, num_workers=num_workers) as server:
        generator = torch.Generator().manual_seed(1)
        loader = dali_proxy.DataLoader(
            server,
            Sleeping(seconds, server.proxy),
            batch_size,
            shuffle=True,
            generator=generator,
            **options,
        )
        for _ in range(count):
            data = hashlib.sha256()
            batches = iter(loader)
            data.update(next(batches)[0].numpy().tobytes())  # the workers have started
            begin, taken = time.perf_counter(), 0
            for values, draws in batches:
                taken += len(values)
                data.update(values.numpy().tobytes() + draws.numpy().tobytes())
            found.append((taken / (time.perf_counter() - begin), data.hexdigest(), server.stats().in_flight["loader"]))
    return found


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--samples", type=int, default=600)
    parser.add_argument("--seconds", type=float, default=0.02, help="time of a sample that isn't slow")
    parser.add_argument("--epochs", type=int, default=3)
    options = parser.parse_args()
    print(f"{describe_machine()}\n")
    some, same = costs(options.samples, options.seconds)
    epoch_names = [f"epoch {number + 1}" for number in range(options.epochs)]
    print(f"| batch size | samples/s of equal cost | {' | '.join(epoch_names)} | batches in flight |")
    print(f"| ---: |{' ---: |' * (options.epochs + 1)} --- |")
    for batch_size in options.batch_sizes:
        fixed = (batch_size, options.workers, options.epochs)
        equal, slow = epochs(same, *fixed), epochs(some, *fixed)
        assert [each[1] for each in equal] == [each[1] for each in slow], "the data differs"
        best = sorted(rate for rate, *_ in equal)[len(equal) // 2]
        parts = " | ".join(f"{rate:,.0f} ({rate / best:.0%})" for rate, *_ in slow)
        flights = ", ".join(str(each[2].batches) for each in slow)
        print(f"| {batch_size} | {best:,.0f} | {parts} | {flights} |", flush=True)


if __name__ == "__main__":
    main()
