"""Measure the cost of traces and of the live page: ``python -m benchmarks.telemetry --help``.

One server trains nothing: a loop takes batches of JPEG images that are decoded, cropped, resized and normalized, or
batches of small arrays (`--small`). Rounds with and without telemetry take turns in one process. A round's figure is
the processor time of all processes (training, server, workers) per batch; other programs hardly change it. The page's
own process isn't included.
"""

from __future__ import annotations

import argparse
import io
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from PIL import Image
from torch.utils.data import Dataset

from dali_proxy import DALIServer, DataLoader
from pipeline import fn, pipeline_def

BATCH = 32


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
def page(server: DALIServer) -> Iterator[None]:
    """Open the page and read it as a browser does."""
    from dali_proxy._monitor.servers import Servers

    servers = Servers(server.endpoint.path)
    pid = servers.observations()[0].pid
    stop = False

    def poll() -> None:
        number = 0
        while not stop:
            servers.observations(newer=True)
            if number % 4 == 0:
                servers.request(pid, "samples")
            number += 1
            time.sleep(1.0)

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield
    finally:
        stop = True
        thread.join()
        servers.close()


def processor_time(server: DALIServer) -> float:
    """Return the processor time so far of this process, its ended children, its workers and the server."""
    own = psutil.Process()
    times = own.cpu_times()
    total = times.user + times.system + times.children_user + times.children_system
    for child in own.children(recursive=True):
        each = child.cpu_times()
        total += each.user + each.system
    return float(total)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--small", action="store_true", help="batches of small arrays instead of JPEG images")
    parser.add_argument("--page", action="store_true", help="measure the live page instead of a trace")
    parser.add_argument("--off", action="store_true", help="only print the processor time per batch, without telemetry")
    parser.add_argument("--rounds", type=int, default=10, help="pairs of rounds (default: 10)")
    parser.add_argument("--batches", type=int, default=60, help="batches in a round (default: 60)")
    options = parser.parse_args()

    samples = [np.full(64, index, np.float32) for index in range(32)] if options.small else jpegs()
    with tempfile.TemporaryDirectory() as folder, DALIServer((small if options.small else images)()) as server:
        dataset = Samples(server.proxy, samples, options.batches)
        loader = DataLoader(server, dataset, batch_size=BATCH, num_workers=2, persistent_workers=True)

        def cost(telemetry: Callable[[], AbstractContextManager[None]]) -> float:
            with telemetry():
                begin = processor_time(server)
                for _ in loader:
                    pass
                return (processor_time(server) - begin) / options.batches * 1e3

        def traced() -> AbstractContextManager[None]:
            return page(server) if options.page else server.trace(Path(folder) / "trace.json")

        cost(nullcontext)
        pairs = []
        for number in range(options.rounds):
            order = (nullcontext, nullcontext if options.off else traced)
            first, second = (cost(each) for each in (order if number % 2 else order[::-1]))
            pairs.append((first, second) if number % 2 else (second, first))
    off = statistics.median(each[0] for each in pairs)
    print(f"processor time per batch: {off:.3f} ms without telemetry")
    if not options.off:
        ratios = sorted(each[1] / each[0] for each in pairs)
        spread = f"{ratios[len(ratios) // 4]:.3f} to {ratios[-1 - len(ratios) // 4]:.3f}"
        print(f"with: {statistics.median(ratios):.3f} times as much (middle half of the pairs: {spread})")


if __name__ == "__main__":
    main()
