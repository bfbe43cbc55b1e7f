"""Measure a loader that nothing slows down, by placement, in one process or in many that share the GPU.

With many processes and minutes it is a test of endurance: every line says how many batches a process got and how long
it waited for the slowest one, and the command fails if a process waited longer than `--patience` seconds.

    taskset -c 0-2 python -m benchmarks.engine.loader --placements engine thread server
    python -m benchmarks.engine.loader --placements engine --processes 15 --seconds 2700
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch
from torch.utils.data import Dataset

import dali_proxy
from benchmarks.graphs.data import write_images
from dali_proxy import fn, pipeline_def

WARM_UP = 40
"""Batches before the measurement: more than a loader prefetches while a pipeline starts."""

THREAD = "thread"
"""The mode in which the server is a thread of this process, in place of a placement."""


class Taken(NamedTuple):
    """What a process got from its loader."""

    images: int
    seconds: float
    slowest: float
    gpu_memory: float

    def __str__(self) -> str:
        return (
            f"{self.images / self.seconds:,.0f} images/s for {self.seconds:,.0f} s, slowest batch "
            f"{self.slowest * 1000:,.0f} ms, {self.gpu_memory:.1f} GiB of GPU memory are used"
        )


class Files(Dataset[Any]):
    """The paths of a folder, again and again."""

    def __init__(self, folder: Path, transform: Any) -> None:
        self.paths = [str(path) for path in sorted(folder.iterdir())]
        self.transform = transform

    def __len__(self) -> int:
        return 1 << 30

    def __getitem__(self, index: int) -> Any:
        return self.transform(Path(self.paths[index % len(self.paths)]).read_bytes()), index


@pipeline_def
def imagenet() -> Any:
    """Decode a drawn window, resize it, and normalize it."""
    images = fn.decoders.image_random_crop(fn.external_source(name="files"), device="mixed")
    images = fn.resize(images, size=(224, 224))
    return fn.crop_mirror_normalize(
        images, mirror=fn.random.coin_flip(), mean=[123.7, 116.3, 103.5], std=[58.4, 57.1, 57.4]
    )


def take(folder: Path, placement: str, batch_size: int, seconds: float, index: int) -> Taken:
    """Take batches of one loader, as fast as they come, on a GPU that is chosen by the index of the process."""
    torch.cuda.set_device(index % torch.cuda.device_count())
    graph = imagenet(batch_size=batch_size, num_threads=2, device_id=torch.cuda.current_device(), seed=index)
    where: dict[str, Any] = {"mode": THREAD} if placement == THREAD else {"placement": placement}
    with dali_proxy.DALIServer(graph, **where) as server:
        loader = iter(dali_proxy.DataLoader(server, Files(folder, server.proxy), batch_size, num_workers=2))
        for _ in range(WARM_UP):
            next(loader)
        torch.cuda.synchronize()
        images, slowest, begin = 0, 0.0, time.monotonic()
        last = begin
        while last - begin < seconds:
            images += len(next(loader)[1])
            now = time.monotonic()
            last, slowest = now, max(slowest, now - last)
        torch.cuda.synchronize()
        free, total = torch.cuda.mem_get_info()
        return Taken(images, time.monotonic() - begin, slowest, (total - free) / 2**30)


def main() -> int:
    """Measure and print; return 1 if a process waited too long."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--placements", nargs="+", default=["engine"], help=f"placements, or {THREAD!r}")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--size", default="small", choices=("small", "large"))
    parser.add_argument("--images", type=int, default=1024)
    parser.add_argument("--patience", type=float, default=30)
    options = parser.parse_args()
    late = False
    spawn = multiprocessing.get_context("spawn")
    with TemporaryDirectory() as name:
        write_images(Path(name), options.images, options.size)
        for placement in options.placements:
            work = partial(take, Path(name), placement, options.batch_size, options.seconds)
            with ProcessPoolExecutor(options.processes, mp_context=spawn) as processes:
                for index, taken in enumerate(processes.map(work, range(options.processes))):
                    print(f"{placement}, process {index}: {taken}", flush=True)
                    late |= taken.slowest > options.patience
    return int(late)


if __name__ == "__main__":
    raise SystemExit(main())
