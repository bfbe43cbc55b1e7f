"""Measure a machine's ranks: throughput, memory and the time to the first batch: ``python -m benchmarks.scale``.

Each rank is a process with the variables that torchrun sets, with its own server and workers. The ranks share the
cores: `dali_proxy.distributed` gives each its part.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

import psutil

from benchmarks.machine import core_count, describe_machine, describe_versions, short_name
from benchmarks.report import save
from benchmarks.session import RESULTS
from benchmarks.workload import FILES, prepare_images

MB = 1 << 20


@dataclass(frozen=True)
class RankResult:
    """The measurement of one rank.

    Attributes:
        start: seconds from the start of its program to its first batch, without the import of torch.
        first_batch: seconds from the start of its loop to its first batch: server and workers start.
        samples: number of samples that arrived while all ranks ran.
        seconds: duration of that time.
        memory_mb: proportional memory (PSS) of its process, its server and its workers.
        processes: number of these processes.
    """

    start: float
    first_batch: float
    samples: int
    seconds: float
    memory_mb: float
    processes: int


def main() -> int:
    """Measure, print, and save JSON."""
    options = parser().parse_args()
    if options.as_rank:
        run_rank(options)
        return 0
    folder = prepare_images(options.files)
    document: dict[str, Any] = {
        "date": date.today().isoformat(),
        "machine": describe_machine(),
        "versions": describe_versions(),
        "seconds": options.seconds,
        "batch_size": options.batch_size,
        "ranks": {},
    }
    print("ranks  samples/s  per rank  first batch  memory per rank  processes per rank")
    for count in options.ranks:
        results = run_ranks(count, folder, options)
        rates = [result.samples / result.seconds for result in results]
        first, memory, processes = (
            statistics.median(getattr(result, name) for result in results)
            for name in ("first_batch", "memory_mb", "processes")
        )
        print(
            f"{count:5}  {sum(rates):9,.0f}  {sum(rates) / count:8,.0f}  {first:9.2f} s  {memory:12,.0f} MB  "
            f"{processes:18.0f}"
        )
        document["ranks"][count] = [asdict(result) for result in results]
    if options.output:
        path = save(document, options.output, None, "-scale")
        print(f"Saved {path.name} ({short_name(None)}).")
    return 0


def run_ranks(count: int, folder: Path, options: argparse.Namespace) -> list[RankResult]:
    """Run ranks at once. All of them measure at the same time: from the last one's first batch on."""
    command = [sys.executable, "-m", "benchmarks.scale", "--as-rank", str(folder)]
    command += ["--seconds", str(options.seconds), "--batch-size", str(options.batch_size)]
    processes = []
    for rank in range(count):
        numbers = {"RANK": rank, "WORLD_SIZE": count, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": count}
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **{name: str(value) for name, value in numbers.items()}}
        processes.append(
            subprocess.Popen(
                command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
            )
        )
    try:
        for process in processes:
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                raise RuntimeError("a rank failed; see its message above")
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
        return [RankResult(**json.loads(process.communicate()[0])) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def run_rank(options: argparse.Namespace) -> None:
    """Measure as one rank. The parent says when."""
    import numpy as np
    import torch

    import dali_proxy
    from benchmarks.workload import CROP_AREA, IMAGE_SIZE, MEAN, STD
    from dali_proxy import distributed
    from pipeline import fn, pipeline_def, types

    begin = time.perf_counter()
    here = distributed.environment()
    here.bind()

    @pipeline_def
    def training() -> Any:
        encoded = fn.external_source(name="images", no_copy=True)
        images = fn.decoders.image_random_crop(
            encoded, random_area=CROP_AREA, device="cpu" if here.device_id is None else "mixed"
        )
        images = fn.resize(images, size=(IMAGE_SIZE, IMAGE_SIZE), interp_type=types.INTERP_LINEAR)
        return fn.crop_mirror_normalize(
            images, mirror=fn.random.coin_flip(), mean=[*MEAN], std=[*STD], dtype=types.FLOAT, output_layout="CHW"
        )

    class Files(torch.utils.data.Dataset[Any]):
        def __init__(self, folder: Path, transform: Any) -> None:
            self.files = sorted(str(path) for path in folder.iterdir())
            self.transform = transform

        def __len__(self) -> int:
            return 1 << 20

        def __getitem__(self, index: int) -> Any:
            return self.transform(np.fromfile(self.files[index % len(self.files)], np.uint8))

    pipe = training(batch_size=options.batch_size, num_threads=here.num_threads, device_id=here.device_id, seed=1)
    with dali_proxy.DALIServer(pipe) as server:
        dataset = Files(options.as_rank, server.proxy)
        batches = distributed.DistributedBatchSampler(dataset, options.batch_size)
        loop_begin = time.perf_counter()
        loop = iter(dali_proxy.DataLoader(server, dataset, batch_sampler=batches, num_workers=here.num_workers))
        next(loop)
        now = time.perf_counter()
        print("ready", flush=True)
        sys.stdin.readline()
        samples, measured = 0, time.perf_counter()
        while (seconds := time.perf_counter() - measured) < options.seconds:
            samples += len(next(loop))
        memory, processes = tree_memory()
        result = RankResult(now - begin, now - loop_begin, samples, seconds, memory, processes)
    print(json.dumps(asdict(result)))


def tree_memory() -> tuple[float, int]:
    """Return the memory of this process and its descendants in MB, shared pages divided, and their number."""
    me = psutil.Process()
    sizes = [process.memory_full_info().pss for process in (me, *me.children(recursive=True))]
    return round(sum(sizes) / MB, 1), len(sizes)


def parser() -> argparse.ArgumentParser:
    """Create the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.scale", description="Throughput, memory and the time to the first batch, by ranks."
    )
    counts = [1, 2] if core_count() < 4 else [2**power for power in range(min(core_count().bit_length(), 4))]
    add = made.add_argument
    add("--ranks", nargs="+", type=int, default=counts, help="numbers of ranks (default: %(default)s)")
    add("--seconds", type=float, default=5.0, help="length of one measurement (default: %(default)s)")
    add("--batch-size", type=int, default=64, help="samples in a batch of one rank (default: %(default)s)")
    add("--files", type=int, default=FILES, help="number of JPEGs to create (default: %(default)s)")
    add("--output", type=Path, default=RESULTS, help="folder of the JSON (default: benchmarks/results)")
    add("--as-rank", type=Path, help=argparse.SUPPRESS)
    return made


if __name__ == "__main__":
    sys.exit(main())
