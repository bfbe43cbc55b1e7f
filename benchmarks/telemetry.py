"""Measure the cost of traces, metrics and the live page: ``python -m benchmarks.telemetry --help``.

One server trains nothing: a loop takes batches of 64 JPEG images that are decoded, cropped, resized to 224 x 224 and
normalized, or batches of 64 arrays of 64 bytes (`--small`). Rounds with and without telemetry take turns in one
process. A round's figure is the processor time per batch of all processes (training, server, workers), which other
programs change less than the elapsed time. The page's own process isn't included. A trace is written when its block
ends; that time is given separately, per batch.
"""

from __future__ import annotations

import argparse
import io
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from PIL import Image
from torch.utils.data import Dataset

from dali_proxy import DALIServer, DataLoader
from pipeline import fn, pipeline_def

BATCH = 64
BATCHES = {"images": 12, "small": 500}  # of a round


@pipeline_def(batch_size=BATCH, num_threads=2, device_id=None, seed=1)
def images() -> Any:
    image = fn.decoders.image_random_crop(fn.external_source(name="x"))
    image = fn.resize(image, size=(224, 224))
    return fn.crop_mirror_normalize(image, mirror=fn.random.coin_flip(), mean=[124.0, 116.0, 104.0], std=[58.0] * 3)


@pipeline_def(batch_size=BATCH, num_threads=2, device_id=None, seed=1)
def small() -> Any:
    return fn.external_source(name="x") * fn.random.uniform(range=(0.5, 1.5)) + 1.0


class Samples(Dataset[Any]):
    def __init__(self, proxy: Any, samples: list[Any], batches: int) -> None:
        self.proxy, self.samples, self.batches = proxy, samples, batches

    def __len__(self) -> int:
        return self.batches * BATCH

    def __getitem__(self, index: int) -> Any:
        return self.proxy(self.samples[index % len(self.samples)])


def jpegs() -> list[Any]:
    rng = np.random.default_rng(0)
    encoded = []
    for _ in range(32):
        file = io.BytesIO()
        coarse = Image.fromarray(rng.integers(0, 255, (24, 32, 3), dtype=np.uint8))
        coarse.resize((500, 375), Image.Resampling.BICUBIC).save(file, "jpeg", quality=90)
        encoded.append(np.frombuffer(file.getvalue(), np.uint8))
    return encoded


@contextmanager
def repeated(action: Callable[[int], object], interval: float = 1.0) -> Iterator[None]:
    """Call a function with 0, 1, ... in each interval, on a thread, until the block ends."""
    ends = threading.Event()

    def run() -> None:
        number = 0
        while not ends.wait(interval):
            action(number)
            number += 1

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


@contextmanager
def page(server: DALIServer) -> Iterator[None]:
    """Open the page and read it as a browser does."""
    from dali_proxy._monitor.servers import Servers

    servers = Servers(server.endpoint.path)
    pid = servers.observations()[0].pid

    def poll(number: int) -> None:
        servers.observations(newer=True)
        if number % 4 == 0:
            servers.request(pid, "samples")

    try:
        with repeated(poll):
            yield
    finally:
        servers.close()


def processor_time() -> float:
    """Return the processor time so far of all threads of this process and its children, in seconds."""
    own = psutil.Process()
    nanoseconds = 0
    for pid in (own.pid, *(child.pid for child in own.children(recursive=True))):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(FileNotFoundError):  # it has ended
                nanoseconds += int(Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()[0])
    return nanoseconds / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--small", action="store_true", help="batches of small arrays instead of JPEG images")
    parser.add_argument("--kind", choices=("trace", "page", "stats", "off"), default="trace", help="what is measured")
    parser.add_argument("--rounds", type=int, default=20, help="pairs of rounds (default: 20)")
    parser.add_argument("--batches", type=int, help=f"batches in a round (default: {BATCHES})")
    options = parser.parse_args()

    batches = options.batches or BATCHES["small" if options.small else "images"]
    samples = [np.full(16, index, np.float32) for index in range(32)] if options.small else jpegs()
    with tempfile.TemporaryDirectory() as folder, DALIServer((small if options.small else images)()) as server:
        dataset = Samples(server.proxy, samples, batches)
        loader = DataLoader(server, dataset, batch_size=BATCH, num_workers=2, persistent_workers=True)
        telemetry = {
            "trace": lambda: server.trace(Path(folder) / "trace.json"),
            "page": lambda: page(server),
            "stats": lambda: repeated(lambda number: server.stats()),
        }

        def cost() -> tuple[float, float]:
            begin, started = processor_time(), time.perf_counter()
            for _ in loader:
                pass
            elapsed = time.perf_counter() - started
            return (processor_time() - begin) / batches * 1e3, elapsed / batches * 1e3

        def measured() -> tuple[tuple[float, float], float]:
            if options.kind == "off":
                return cost(), 0.0
            with telemetry[options.kind]():
                result = cost()
                begin = processor_time()
            return result, (processor_time() - begin) / batches * 1e3

        cost()
        pairs, ends = [], []
        for number in range(options.rounds):
            first, second = (cost(), measured()) if number % 2 else (measured(), cost())[::-1]
            pairs.append((first, second[0]))
            ends.append(second[1])
    for unit, what in enumerate(("processor time", "elapsed time")):
        off = statistics.median(each[0][unit] for each in pairs)
        ratios = sorted(each[1][unit] / each[0][unit] for each in pairs)
        spread = f"{ratios[len(ratios) // 4]:.3f} to {ratios[-1 - len(ratios) // 4]:.3f}"
        medians = statistics.median(each[1][unit] for each in pairs) / off
        print(
            f"{what} per batch: {off:.3f} ms without, {statistics.median(ratios):.4f} times as much with it "
            f"(middle half of the pairs: {spread}; ratio of the medians: {medians:.4f})"
        )
    print(f"at the end, such as to write the trace: {statistics.median(ends):.3f} ms per batch")


if __name__ == "__main__":
    main()
