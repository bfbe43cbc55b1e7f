"""Four jobs on one machine that train on the same files: with a server each, with a shared one, and with torch."""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import psutil
import torch

from benchmarks.cache.epochs import MEAN, SIZE, STD, cropped
from benchmarks.cache.files import draw_files
from benchmarks.cache.tensorsocket_jobs import Received
from benchmarks.ranks import run_ranks, wait_for_others
from dali_proxy import DALIServer, DataLoader, Pipeline, fn, types
from dali_proxy.distributed import set_ranks

#: A server for each job, without a cache and with one; a shared one, for jobs with different seeds or equal ranks.
#: "tensorsocket" runs if it is installed. All jobs get the same batches, without the last ones.
VARIANTS = ("own", "own cache", "shared cache", "equal ranks", "torch", "tensorsocket")
_BATCH = 32
_COST = "microseconds of processor time"
_ROLES = ("training", "workers", "server")  # kinds of processes, and their processor time


def measure_jobs(
    kind: str, count: int, jobs: int, epochs: int, rounds: int, variants: Sequence[str] = VARIANTS
) -> dict[str, Any]:
    """Return the samples per second of all jobs, their processor time per sample, and how many samples were decoded.

    "decoding" is the part of this time that a cache can save: that of the operators whose values it keeps.

    Args:
        kind: kind of the files; see `KINDS`.
        count: number of files.
        jobs: number of jobs.
        epochs: number of epochs of each job; the first one fills caches.
        rounds: number of rounds, in which the variants take turns. The results are medians.
        variants: the variants; see `VARIANTS`.
    """
    variants = [each for each in variants if each != "tensorsocket" or find_spec(each) is not None]
    rows: dict[str, list[tuple[float, ...]]] = {variant: [] for variant in variants}
    with tempfile.TemporaryDirectory() as folder:
        for number, content in enumerate(draw_files(kind, count)):
            Path(folder, f"{number:05}").write_bytes(content.tobytes())
        for round_ in range(rounds):
            for variant in variants:
                name = f"benchmark-{os.getpid()}-{round_}-{VARIANTS.index(variant)}"
                command = ["benchmarks.cache", "job", "--variant", variant, "--folder", folder, "--name", name]
                results = [lines[0] for lines in run_ranks([*command, "--epochs", str(epochs)], jobs)]
                processes: dict[str, float] = {}
                for each in results:
                    for pid, seconds in each["processor"].items():
                        pid = f"{each['training']} {pid}" if pid == "ended" else pid
                        processes[pid] = max(processes.get(pid, 0.0), seconds)
                samples = sum(each["samples"] for each in results)
                decoded = max if variant in ("shared cache", "equal ranks") else sum
                roles = {str(each["training"]): "training" for each in results}
                roles |= {str(each["server"]): "server" for each in results}
                shares = dict.fromkeys(_ROLES, 0.0)
                for pid, seconds in processes.items():
                    shares[roles.get(pid, "workers")] += seconds / samples * 1e6
                rows[variant].append(
                    (
                        samples / max(each["seconds"] for each in results),
                        sum(processes.values()) / samples * 1e6,
                        decoded(each["decoded"] for each in results),
                        *shares.values(),
                        statistics.mean(each["decoding"] for each in results),
                    )
                )
                print(variant, *map(round, rows[variant][-1]), file=sys.stderr, flush=True)
    names = ("samples per second", _COST, "decoded", *_ROLES, "decoding")
    found: dict[str, dict[str, float]] = {}
    for variant, row in rows.items():
        medians = [round(statistics.median(each)) for each in zip(*row, strict=True)]
        found[variant] = dict(zip(names, medians, strict=True))
    result: dict[str, Any] = {"kind": kind, **found}
    if "own" in found:
        own = found["own"][_COST]
        result["times as fast as own"] = {variant: round(own / each[_COST], 2) for variant, each in found.items()}
        # If values cost nothing: each job's own windows, the transport and the training remain.
        result["times as fast at most"] = round(own / (own - found["own"]["decoding"]), 2)
    return result


class Files(torch.utils.data.Dataset[Any]):
    """The contents of the files of a folder, through a transform; or decoded by OpenCV, kept in a dictionary."""

    def __init__(self, folder: str, transform: Any = None) -> None:
        self.paths, self.transform = sorted(Path(folder).iterdir()), transform
        self._known: dict[int, Any] = {}
        self.decoded = 0

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        if self.transform is not None:
            return self.transform(self.paths[index].read_bytes())
        if index not in self._known:
            self.decoded += 1
            decoded: Any = cv2.imdecode(np.fromfile(self.paths[index], np.uint8), cv2.IMREAD_COLOR)
            self._known[index] = cv2.cvtColor(decoded, cv2.COLOR_BGR2RGB)
        image = cropped(self._known[index], "whole").float()
        return (image - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)


def run_job(variant: str, folder: str, name: str, epochs: int) -> None:
    """Train as one of the jobs, and print its times."""
    rank = int(os.environ["RANK"])
    # Each job is a training of its own. Ranks of one training would draw different numbers, so no batch would be equal.
    set_ranks(0)
    generator = torch.Generator().manual_seed(1 if variant == "equal ranks" else rank)
    if variant == "torch":
        dataset = Files(folder)
        batches = torch.utils.data.DataLoader(dataset, _BATCH, shuffle=True, generator=generator)
        _loop(batches, epochs, 0, lambda: dataset.decoded)
        return
    if variant == "tensorsocket":
        port = 20_000 + 4 * (os.getppid() % 10_000)
        _loop(Received(Files(folder), _BATCH, port, rank == 0), epochs, 0, lambda: 0 if rank else len(Files(folder)))
        return
    named: dict[str, Any] = {"name": name, "attach": True} if variant in ("shared cache", "equal ranks") else {}
    cache = 0 if variant == "own" else "4GB"
    with DALIServer(_pipeline(1 if variant == "equal ranks" else rank), cache=cache, **named) as server:
        files = Files(folder, server.proxy)
        options: dict[str, Any] = {"batch_size": _BATCH, "shuffle": True, "generator": generator}
        loader = DataLoader(server, files, **options, num_workers=1, persistent_workers=True)

        def decoded() -> int:
            return server.stats().cache_misses if cache else epochs * len(files)

        def decoding() -> float:
            times = [each for each in server.stats().operators.values() if each.cacheable and each.batches]
            return sum(each.seconds / each.batches for each in times) / _BATCH * 1e6

        _loop(loader, epochs, server.pid, decoded, decoding)


def _pipeline(seed: int) -> Pipeline:
    pipe = Pipeline(batch_size=_BATCH, num_threads=2, device_id=None, seed=seed)
    with pipe:
        images = fn.random_resized_crop(fn.decoders.image(fn.external_source(name="encoded")), size=(SIZE, SIZE))
        pipe.set_outputs(
            fn.crop_mirror_normalize(
                images, crop=(SIZE, SIZE), mirror=fn.random.coin_flip(), mean=MEAN, std=STD, dtype=types.FLOAT
            )
        )
    return pipe


def _loop(
    batches: Iterable[Any], epochs: int, server: int | None, decoded: Any, decoding: Callable[[], float] = float
) -> None:
    wait_for_others()
    begin, before = time.perf_counter(), dict(_processor(server))
    samples = sum(len(batch) for _ in range(epochs) for batch in batches)
    seconds = time.perf_counter() - begin
    spent = {pid: total - before.get(pid, 0.0) for pid, total in _processor(server)}
    report = {"samples": samples, "seconds": seconds, "processor": spent, "decoded": decoded()}
    report |= {"training": os.getpid(), "server": server, "decoding": decoding()}
    print(json.dumps(report), flush=True)


def _processor(server: int | None) -> Iterator[tuple[int | str, float]]:
    """Return the processor time of this process, of those that it has started, and of the server, by process ID."""
    own = psutil.Process()
    found = {each.pid: each for each in [own, *own.children(recursive=True)]}
    if server:
        found[server] = psutil.Process(server)
    for pid, process in found.items():
        times = process.cpu_times()
        yield pid, times.user + times.system
    ended = own.cpu_times()  # of workers, which end with their epochs
    yield "ended", ended.children_user + ended.children_system
