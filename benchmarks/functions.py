"""Compare a Python function in a server's processes with torch's workers: ``python -m benchmarks.functions --help``.

The loaders take turns. A function that sleeps shows how long its processes wait for work, whatever else runs on the
machine; one that computes needs a quiet machine. The processor time includes that of all processes.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.telemetry import processor_time
from dali_proxy import DALIServer, DataLoader
from pipeline import Pipeline, fn

MANY = 10**7  # samples of a dataset: more than any round takes


def sleep(seconds: float, image: Any) -> Any:
    time.sleep(seconds)
    return image


def spin(count: int, image: Any) -> Any:
    value = 0
    for number in range(count):
        value = (value * 31 + number) & 0xFFFF
    image[0, 0, 0] = value & 255
    return image


def function_of(kind: str, milliseconds: float) -> Callable[[Any], Any]:
    """Return a function that takes so long."""
    if kind == "sleep":
        return partial(sleep, milliseconds / 1e3)
    image, count = np.zeros((1, 1, 1), np.uint8), 20_000
    seconds = []
    for _ in range(20):
        begin = time.thread_time()
        spin(count, image)
        seconds.append(time.thread_time() - begin)
    return partial(spin, max(1, int(count * milliseconds / 1e3 / min(seconds))))


class Images(torch.utils.data.Dataset[Any]):
    def __init__(self, transform: Callable[[Any], Any], side: int) -> None:
        self.transform = transform
        self.images = np.random.default_rng(0).integers(0, 256, (64, side, side, 3), np.uint8)

    def __len__(self) -> int:
        return MANY

    def __getitem__(self, index: int) -> Any:
        return self.transform(self.images[index % len(self.images)])


def measured(batches: Iterator[Any], seconds: float) -> tuple[float, float]:
    """Return samples per second, and microseconds of processor time per sample."""
    for _ in range(10):
        next(batches)
    count, used, begin = 0, processor_time(), time.perf_counter()
    while (elapsed := time.perf_counter() - begin) < seconds:
        count += len(next(batches))
    return count / elapsed, (processor_time() - used) / count * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kind", choices=("sleep", "compute"), default="sleep", help="what the function does")
    parser.add_argument("--milliseconds", type=float, nargs="+", default=[1.0, 5.0, 20.0], help="how long it takes")
    parser.add_argument("--side", type=int, nargs="+", default=[32, 224], help="width and height of the images")
    parser.add_argument("--batch-size", type=int, default=32, help="samples of a batch (default: 32)")
    parser.add_argument("--processes", type=int, default=2, help="processes of the server, and torch's workers")
    parser.add_argument("--rounds", type=int, default=8, help="pairs of measurements (default: 8)")
    parser.add_argument("--seconds", type=float, default=1.5, help="length of a measurement (default: 1.5)")
    options = parser.parse_args()
    for milliseconds, side in itertools.product(options.milliseconds, options.side):
        compare(milliseconds, side, options)


def compare(milliseconds: float, side: int, options: argparse.Namespace) -> None:
    """Measure both loaders in turn, and print how they compare."""
    function, size = function_of(options.kind, milliseconds), options.batch_size
    with Pipeline(size, options.processes, None, seed=1) as pipe:
        images = fn.external_source(name="image", layout="HWC")
        pipe.set_outputs(fn.python_function(images, function=function))
    with DALIServer(pipe) as server:
        plain = Images(lambda image: torch.from_numpy(function(image.copy())), side)
        ours = Images(server.proxy, side)
        loaders: list[Callable[[], Any]] = [
            lambda: DataLoader(server, ours, batch_size=size, num_workers=2),
            lambda: torch.utils.data.DataLoader(plain, size, num_workers=options.processes),
        ]
        rounds: list[list[tuple[float, float]]] = []
        for number in range(options.rounds):
            order = (0, 1) if number % 2 else (1, 0)
            figures = {which: measured(iter(loaders[which]()), options.seconds) for which in order}
            rounds.append([figures[0], figures[1]])
    ratios = sorted(ours[0] / plain[0] for ours, plain in rounds)
    times = [statistics.median(each[which][1] for each in rounds) for which in (0, 1)]
    print(
        f"{milliseconds:g} ms, {side} x {side} pixels: {statistics.median(ratios):.3f} times as many samples per "
        f"second as torch ({ratios[0]:.3f} to {ratios[-1]:.3f}); processor time {times[0]:.0f} us per sample, torch "
        f"{times[1]:.0f}"
    )


if __name__ == "__main__":
    main()
