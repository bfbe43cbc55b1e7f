"""Compare the workers and threads that a server chooses with the best fixed numbers: rate and cost.

``python -m benchmarks.auto_workers`` runs seven kinds of work, in about eight minutes. Each server runs in its own
process, for a while until "auto" has settled. Then the servers take turns, so that the load of other programs concerns
all of them. Nothing trains: the loop only takes batches.
"""

from __future__ import annotations

import argparse
import io
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import av
import numpy as np
import psutil
from PIL import Image
from torch.utils.data import Dataset

import dali_proxy
from benchmarks.machine import describe_machine
from dali_proxy.pipeline import Pipeline, fn, pipeline_def

SETTLE = 30.0  # seconds until "auto" is measured
ROUND, WARM = 3.0, 1.5  # seconds in which one server runs and is measured, and before that
FIXED = (0, 2, 16)
FILES = 64


@dataclass(frozen=True)
class Work:
    """A kind of work.

    Attributes:
        batch_size: number of samples of a batch.
        make: returns the pipeline for a size of batches and a number of threads; -1 lets the server choose it.
        seconds: time of the dataset for each sample.
        computes: whether it computes in this time.
        suffix: format of the images; empty for a small array.
    """

    batch_size: int
    make: Callable[[tuple[int, int]], Pipeline]
    seconds: float = 0.0
    computes: bool = False
    suffix: str = ""


class Samples(Dataset[Any]):
    """An endless number of samples, from a few files."""

    def __init__(self, work: Work, folder: str, proxy: Any) -> None:
        self.work, self.proxy = work, proxy
        self.files = sorted(str(path) for path in Path(folder).glob(f"*.{work.suffix}")) if work.suffix else []

    def __len__(self) -> int:
        return 1 << 40

    def __getitem__(self, index: int) -> Any:
        if self.work.computes:
            end = time.thread_time() + self.work.seconds
            while time.thread_time() < end:
                pass
        elif self.work.seconds:
            time.sleep(self.work.seconds)
        if not self.files:
            return self.proxy(np.full(64, index % 256, np.uint8))
        return self.proxy(np.fromfile(self.files[index % FILES], np.uint8))


@pipeline_def
def images() -> Any:
    """Decode, crop, resize and normalise."""
    decoded = fn.decoders.image_random_crop(fn.external_source(name="file"), device="cpu")
    return fn.crop_mirror_normalize(fn.resize(decoded, size=(224, 224)), mirror=fn.random.coin_flip())


@pipeline_def
def views() -> Any:
    """Make two augmented views, as SimCLR does."""
    decoded = fn.decoders.image(fn.external_source(name="file"), device="cpu")

    def view() -> Any:
        crop = fn.random_resized_crop(decoded, size=(224, 224))
        color = fn.color_twist(crop, brightness=fn.random.uniform(range=(0.6, 1.4)), hue=0.1)
        return fn.crop_mirror_normalize(fn.gaussian_blur(color, sigma=1.0), mirror=fn.random.coin_flip())

    return view(), view()


@pipeline_def
def clips() -> Any:
    """Decode and resize all frames of a short video."""
    frames = fn.experimental.decoders.video(fn.external_source(name="file"), device="cpu")
    return fn.resize(frames, size=(112, 112))


@pipeline_def
def arrays() -> Any:
    """Do nearly nothing."""
    return fn.external_source(name="x") + 1


def _options(sizes: tuple[int, int]) -> dict[str, Any]:
    return {"batch_size": sizes[0], "num_threads": sizes[1], "device_id": None, "seed": 1}


WORKS = {
    "JPEG": Work(32, lambda size: images(**_options(size)), suffix="jpg"),
    "PNG": Work(32, lambda size: images(**_options(size)), suffix="png"),
    "video": Work(8, lambda size: clips(**_options(size)), suffix="mp4"),
    "SimCLR": Work(32, lambda size: views(**_options(size)), suffix="jpg"),
    "5 ms, waiting": Work(16, lambda size: arrays(**_options(size)), 0.005),
    "5 ms, computing": Work(16, lambda size: arrays(**_options(size)), 0.005, True),
    "files after 50 ms": Work(8, lambda size: images(**_options(size)), 0.05, suffix="jpg"),
}


def write_images(folder: str) -> None:
    """Write files of 256 x 256 smooth random pixels as JPEG and PNG, and as videos of 16 frames."""
    random = np.random.default_rng(1)
    for number in range(FILES):
        small = Image.fromarray(random.integers(0, 256, (16, 16, 3), np.uint8))
        image = small.resize((256, 256), Image.Resampling.BICUBIC)
        for suffix in ("jpg", "png"):
            file = io.BytesIO()
            image.save(file, {"jpg": "JPEG", "png": "PNG"}[suffix])
            Path(folder, f"{number:03}.{suffix}").write_bytes(file.getvalue())
        with av.open(str(Path(folder, f"{number:03}.mp4")), "w") as clip:
            stream = clip.add_stream("libx264", rate=30, options={"preset": "veryfast"})
            (stream.width, stream.height), stream.pix_fmt = (192, 192), "yuv420p"
            frame: Any = av.VideoFrame  # PyAV declares no types here
            for left in range(16):
                shown = image.crop((4 * left, left, 4 * left + 192, left + 192))
                clip.mux(stream.encode(frame.from_image(shown)))
            clip.mux(stream.encode())


def run(name: str, folder: str, num_workers: Any, orders: Connection) -> None:
    """Run a loop in this process whenever a number of seconds arrives; send the samples, their seconds and the cost."""
    work = WORKS[name]
    auto = num_workers == "auto"
    threads = -1 if auto else os.cpu_count() or 1
    with dali_proxy.DALIServer(work.make((work.batch_size, threads)), num_workers="auto" if auto else 0) as server:
        options: dict[str, Any] = {} if auto else {"num_workers": num_workers}
        if options.get("num_workers"):
            options["multiprocessing_context"] = "fork"  # this process was spawned, and wouldn't fork by itself
        dataset = Samples(work, folder, server.proxy)
        loader = dali_proxy.DataLoader(server, dataset, batch_size=work.batch_size, **options)
        for seconds in iter(orders.recv, 0.0):
            batches = iter(loader)  # time between epochs doesn't count for the server
            for _ in _for(WARM, batches):
                pass
            before, begin = _processor_seconds(), time.perf_counter()
            count = sum(1 for _ in _for(seconds, batches))
            elapsed, spent = time.perf_counter() - begin, _processor_seconds() - before
            del batches
            stats = server.stats()
            chosen = f"{stats.num_workers} workers, {stats.threads} threads"
            reasons = f"{stats.num_workers_reason}; {stats.num_threads_reason}"
            orders.send((count * work.batch_size, elapsed, spent, chosen, reasons))


def _for(seconds: float, batches: Iterator[Any]) -> Iterator[Any]:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        yield next(batches)


def _processor_seconds() -> float:
    """Return the processor time of this process and its descendants, also of those that have ended."""
    here = psutil.Process()
    times = [process.cpu_times() for process in (here, *here.children(recursive=True))]
    return float(sum(each.user + each.system + each.children_user + each.children_system for each in times))


def measure(name: str, folder: str, rounds: int, fixed: list[int]) -> list[str]:
    """Return the rows of the table for one kind of work."""
    context = multiprocessing.get_context("spawn")
    candidates: list[Any] = ["auto", *fixed]
    pipes = [context.Pipe() for _ in candidates]
    processes = [
        context.Process(target=run, args=(name, folder, each, theirs))
        for each, (_, theirs) in zip(candidates, pipes, strict=True)
    ]
    found: dict[Any, list[tuple[float, float]]] = {each: [] for each in candidates}
    last: Any = None
    for process, candidate, (ours, _) in zip(processes, candidates, pipes, strict=True):
        process.start()
        ours.send(SETTLE if candidate == "auto" else ROUND)  # the others start, and warm up
        ours.recv()
    for number in range(rounds):
        order = list(zip(candidates, pipes, strict=True))
        for candidate, (ours, _) in order if number % 2 == 0 else reversed(order):
            ours.send(ROUND)
            samples, seconds, spent, *chosen = ours.recv()
            found[candidate].append((samples / seconds, spent / samples * 1e3))
            last = chosen if candidate == "auto" else last
    for process, (ours, _) in zip(processes, pipes, strict=True):
        ours.send(0.0)
        process.join()
    rates = {each: statistics.median(rate for rate, _ in found[each]) for each in candidates}
    costs = {each: statistics.median(cost for _, cost in found[each]) for each in candidates}
    best = max(fixed, key=rates.__getitem__)
    spread = statistics.median(
        (max(rate for rate, _ in each) - min(rate for rate, _ in each)) / statistics.median(rate for rate, _ in each)
        for each in found.values()
    )
    cells = [f"{rates[each]:,.0f}" for each in fixed]
    return [
        f"| {name} | {' | '.join(cells)} | {rates['auto']:,.0f} with {last[0]} | {rates['auto'] / rates[best]:.0%} | "
        f"{costs['auto'] / costs[best]:.2f} | {spread:.0%} |",
        f"{name}: {last[1]}",
    ]


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="turns of each server")
    parser.add_argument("--fixed", type=int, nargs="+", default=FIXED, help="the loader's num_workers to compare with")
    parser.add_argument("--only", choices=[*WORKS], action="append", help="kind of work; may be repeated")
    options = parser.parse_args()
    print(f"{describe_machine()}\n")
    print(f"| samples/s with | {' | '.join(map(str, options.fixed))} | auto | of the best | processor time | spread |")
    print(f"| --- |{' ---: |' * (len(options.fixed) + 4)}")
    reasons = []
    with tempfile.TemporaryDirectory() as folder:
        write_images(folder)
        for name in options.only or WORKS:
            row, reason = measure(name, folder, options.rounds, options.fixed)
            print(row, flush=True)
            reasons.append(reason)
    print("", *reasons, sep="\n")


if __name__ == "__main__":
    main()
