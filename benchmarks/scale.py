"""Measure throughput, memory and the time to the first batch, by ranks and by nodes: ``python -m benchmarks.scale``.

Each rank is a process with the variables that torchrun sets, with its own server and workers, or with a server and a
pool of workers that all ranks share. `dali_proxy.distributed` divides the cores among the ranks.

The nodes are those of a local Ray cluster: each has its own daemon and object store, and one server. They share the
cores, too, so most jobs end at the cores of this machine. "tiny" has samples of 12 bytes: the fixed work of a batch and
of a sample. "arrays" and "images" are those of `benchmarks.ray_cluster`. The arrays of "waits" take 4 ms each without a
processor, as if each node had its own: this shows how the rate grows with nodes.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import sys
import tempfile
import time
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

import psutil
import torch

from benchmarks import ranks
from benchmarks.machine import core_count, describe_machine, describe_versions
from benchmarks.measurement import machine_cpu, tree_cpu, tree_memory
from benchmarks.report import save
from benchmarks.session import RESULTS
from benchmarks.workload import FILES, prepare_images

JOBS = ("tiny", "arrays", "images", "waits")
MORE = {"tiny": 20, "arrays": 4}  # times as many batches: the others take longer
SERVERS = {"separate": "ranks", "shared": "ranks_shared"}  # their names in the document


@dataclass(frozen=True)
class RankResult:
    """The measurement of one rank.

    Attributes:
        start: seconds from the start of its program to its first batch, without the import of torch.
        first_batch: seconds from the start of its loop to its first batch: server and workers start.
        samples: number of samples that arrived while all ranks ran.
        seconds: duration of that time.
        cpu_seconds: processor time of its processes during that time.
        machine_cpu_seconds: processor time of all processes of the machine.
        memory_mb: proportional memory (PSS) of its process, its server and its workers.
        processes: number of these processes.
    """

    start: float
    first_batch: float
    samples: int
    seconds: float
    cpu_seconds: float
    machine_cpu_seconds: float
    memory_mb: float
    processes: int


@dataclass(frozen=True)
class NodesResult:
    """The measurement of one job on a number of nodes.

    Attributes:
        nodes: number of nodes.
        job: one of `JOBS`.
        first_batch: seconds from the start of the servers to the first batch, when Ray runs.
        samples: number of samples that arrived after the first batches.
        seconds: duration of that time.
        cpu_seconds: processor time of the whole cluster during that time.
        machine_cpu_seconds: processor time of all processes of the machine.
        loop_cpu_seconds: the part of it that the process of the training loop used.
        memory_mb: proportional memory (PSS) of one server.
        load: load average of the machine.
    """

    nodes: int
    job: str
    first_batch: float
    samples: int
    seconds: float
    cpu_seconds: float
    machine_cpu_seconds: float
    loop_cpu_seconds: float
    memory_mb: float
    load: float


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
        "load": [round(value, 1) for value in os.getloadavg()],
        "ranks": {},
        "ranks_shared": {},
        "nodes": [],
    }
    print("ranks  server    samples/s  per rank  CPU ms/sample  first batch  memory of all  processes")
    for count in options.ranks:
        for server, key in SERVERS.items():
            results = run_ranks(count, folder, options, server) if server in options.servers else []
            if not results:
                continue
            rate = sum(result.samples / result.seconds for result in results)
            cost = sum(result.cpu_seconds for result in results) / sum(result.samples for result in results)
            print(
                f"{count:5}  {server:8}  {rate:9,.0f}  {rate / count:8,.0f}  {1e3 * cost:13.2f}  "
                f"{statistics.median(result.first_batch for result in results):9.2f} s  "
                f"{sum(result.memory_mb for result in results):10,.0f} MB  "
                f"{sum(result.processes for result in results):9}",
                flush=True,
            )
            document[key][count] = [asdict(result) for result in results]
    if options.nodes and importlib.util.find_spec("ray") is None:
        print("No measurement by nodes: Ray is not installed (extra: ray).")
    elif options.nodes:
        print("\nnodes  job       samples/s  CPU ms/batch  of the loop  first batch  memory per server")
        for count in options.nodes:
            document["nodes"] += [asdict(result) for result in run_nodes(count, folder, options)]
    if options.output:
        path = save(document, options.output, 0 if torch.cuda.is_available() else None, "-scale")
        print(f"Saved {path.name}.")
    return 0


def run_ranks(count: int, folder: Path, options: argparse.Namespace, server: str) -> list[RankResult]:
    """Run ranks at once. All of them measure at the same time: from the last one's first batch on."""
    command = ["benchmarks.scale", "--as-rank", str(folder)]
    command += ["--seconds", str(options.seconds), "--batch-size", str(options.batch_size)]
    command += [] if options.threads is None else ["--threads", str(options.threads)]
    with tempfile.TemporaryDirectory() as meeting:
        command += ["--store", f"{meeting}/store"] if server == "shared" else []
        return [RankResult(**result) for (result,) in ranks.run_ranks(command, count)]


def run_rank(options: argparse.Namespace) -> None:
    """Measure as one rank. The parent says when."""
    import numpy as np

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

    threads = {} if options.threads is None else {"num_threads": options.threads}
    pipe = training(batch_size=options.batch_size, device_id=here.device_id, seed=1, **threads)
    serving: AbstractContextManager[dali_proxy.DALIServer]
    if options.store is None:
        serving = dali_proxy.DALIServer(pipe)
    else:
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{options.store}", rank=here.rank, world_size=here.world_size
        )
        serving = distributed.shared_server(pipe)
    with serving as server:
        dataset = Files(options.as_rank, server.proxy)
        batches = distributed.DistributedBatchSampler(dataset, options.batch_size)
        loop_begin = time.perf_counter()
        loop = iter(dali_proxy.DataLoader(server, dataset, batch_sampler=batches))
        next(loop)
        now = time.perf_counter()
        ranks.wait_for_others()
        samples, measured, cpu, machine = 0, time.perf_counter(), tree_cpu(), machine_cpu()
        while (seconds := time.perf_counter() - measured) < options.seconds:
            samples += len(next(loop))
        cpu, machine = tree_cpu() - cpu, machine_cpu() - machine
        memory, processes = tree_memory(psutil.Process())
        if options.store is not None:
            torch.distributed.barrier()  # the others measure their memory while the server runs
        result = RankResult(now - begin, now - loop_begin, samples, seconds, cpu, machine, memory, processes)
    print(json.dumps(asdict(result)))


def run_nodes(count: int, folder: Path, options: argparse.Namespace) -> list[NodesResult]:
    """Run each job on a new cluster of so many nodes."""
    from benchmarks.ray_cluster import BATCH, WARM, local_cluster, ours

    results = []
    with local_cluster(count):
        for job in options.jobs:
            measured = options.batches * MORE.get(job, 1)
            batches = WARM * count + measured
            begin = time.perf_counter()
            for number, batch in enumerate(ours(job, batches, count, sorted(folder.iterdir())), 1):
                float(batch[0, 0, 0, 0])
                if number == 1:
                    first = time.perf_counter() - begin
                if number == WARM * count:
                    start = _clocks()
                if number == batches:
                    seconds, cpu, machine, loop_cpu = (end - begin for end, begin in zip(_clocks(), start, strict=True))
                    memory = server_memory() / count
            load = os.getloadavg()[0]
            samples = measured * BATCH
            result = NodesResult(count, job, first, samples, seconds, cpu, machine, loop_cpu, memory, load)
            results.append(result)
            print(
                f"{count:5}  {job:8}  {result.samples / seconds:9,.0f}  {1e3 * cpu / measured:12.1f}  "
                f"{1e3 * loop_cpu / measured:11.1f}  {first:9.2f} s  {memory:14,.0f} MB",
                flush=True,
            )
    return results


def _clocks() -> tuple[float, float, float, float]:
    """Return the time, and the processor time of this process and its descendants, the machine, and this process."""
    return time.perf_counter(), tree_cpu(), machine_cpu(), time.process_time()


def server_memory() -> float:
    """Return the memory of all servers of the cluster in MB."""
    descendants = psutil.Process().children(recursive=True)
    return sum(tree_memory(process)[0] for process in descendants if "NodeServer" in " ".join(process.cmdline()))


def parser() -> argparse.ArgumentParser:
    """Create the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.scale",
        description="Measure throughput, memory and the time to the first batch, by ranks and by nodes.",
    )
    counts = [1, 2, 4, 8] if core_count() >= 8 else [1, 2, 4]
    add = made.add_argument
    add("--ranks", nargs="+", type=int, default=counts, help="numbers of ranks (default: %(default)s)")
    add("--seconds", type=float, default=5.0, help="length of one measurement (default: %(default)s)")
    add("--nodes", nargs="*", type=int, default=[1, 2, 4], help="numbers of nodes (default: %(default)s)")
    add("--jobs", nargs="+", choices=JOBS, default=JOBS, help="jobs of the nodes (default: all)")
    add("--batches", type=int, default=30, help="batches of a measurement by nodes (default: %(default)s)")
    add("--batch-size", type=int, default=64, help="samples in a batch of one rank (default: %(default)s)")
    add("--files", type=int, default=FILES, help="number of JPEGs to create (default: %(default)s)")
    add("--output", type=Path, default=RESULTS, help="folder of the JSON (default: benchmarks/results)")
    add("--servers", nargs="+", choices=[*SERVERS], default=[*SERVERS], help="servers of the ranks (default: both)")
    add("--threads", type=int, help="threads of each server's pipeline (default: its share of the cores)")
    add("--as-rank", type=Path, help=argparse.SUPPRESS)
    add("--store", type=Path, help=argparse.SUPPRESS)
    return made


if __name__ == "__main__":
    sys.exit(main())
