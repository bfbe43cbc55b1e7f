"""Compare servers in a Ray cluster with Ray Data, which does the same job on the same cluster.

``python -m benchmarks.ray_cluster FOLDER`` starts a local Ray cluster: a node without CPUs for the training process,
and loader nodes with one CPU each. Batches cross from one node's object store to another's, as between machines.
FOLDER has JPEG files. The jobs run in turn, in several rounds, and print a table:

- arrays: arrays of uint8 become float32; nearly all of the time is the way of a batch.
- images: JPEGs are decoded, cropped and resized at random, flipped and normalized.

The rivals return batches in order, prefetch as much as the other, and get the batch size as their unit of work, which
spares Ray Data the division of blocks. Processor time is that of all processes of the cluster, between two batches.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import simplejpeg
import torch

from benchmarks.machine import describe_machine, describe_versions
from benchmarks.measurement import tree_cpu
from dali_proxy import DALIServer, DataLoader, RayCluster
from pipeline import fn, pipeline_def, types

BATCH = 64
SIZE = 224
JOBS = ("arrays", "images")
WARM = 12  # batches before the measurement: queues fill
ARRAYS: dict[str, Any] = {"tiny": {"size": 2}, "waits": {"wait": 0.004}}  # arguments of jobs for `benchmarks.scale`
MEAN, STD = [123.7, 116.3, 103.5], [58.4, 57.1, 57.4]


class Arrays(torch.utils.data.Dataset[Any]):
    """Copies of one array, each of which takes `wait` seconds, like a file of a remote store."""

    def __init__(self, proxy: Any, length: int, size: int = SIZE, wait: float = 0.0) -> None:
        self.proxy = proxy
        self.length = length
        self.wait = wait
        self.array = np.ones((3, size, size), np.uint8)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        if self.wait:
            time.sleep(self.wait)
        return self.proxy(self.array)


class Images(torch.utils.data.Dataset[Any]):
    """JPEG files, in turn."""

    def __init__(self, proxy: Any, length: int, files: list[Path]) -> None:
        self.proxy = proxy
        self.length = length
        self.files = files

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return self.proxy(self.files[index % len(self.files)].read_bytes())


@pipeline_def(batch_size=BATCH, num_threads=1, device_id=None, seed=1)
def cast() -> Any:
    return fn.cast(fn.external_source(name="array"), dtype=types.FLOAT)


@pipeline_def(batch_size=BATCH, num_threads=1, device_id=None, seed=1)
def augment() -> Any:
    image = fn.decoders.image_random_crop(fn.external_source(name="image"), random_area=[0.25, 1.0])
    image = fn.resize(image, size=[SIZE, SIZE])
    return fn.crop_mirror_normalize(image, mirror=fn.random.coin_flip(), mean=MEAN, std=STD)


def ours(job: str, batches: int, nodes: int, files: list[Path]) -> Iterator[torch.Tensor]:
    """Yield batches of one server on each node."""
    with DALIServer(augment() if job == "images" else cast(), cluster=RayCluster(servers=nodes)) as server:
        while server.pool.ready < nodes:
            server.pool.wait()
        length = batches * BATCH
        dataset: Arrays | Images = Arrays(server.proxy, length, **ARRAYS.get(job, {}))
        if job == "images":
            dataset = Images(server.proxy, length, files)
        yield from DataLoader(server, dataset, batch_size=BATCH)


def ray_data(job: str, batches: int, nodes: int, files: list[Path]) -> Iterator[torch.Tensor]:
    """Yield batches of Ray Data."""
    import ray

    array = np.ones((3, SIZE, SIZE), np.uint8)

    def arrays(rows: dict[str, Any]) -> dict[str, Any]:
        return {"image": np.stack([array] * len(rows["id"])).astype(np.float32)}

    def images(rows: dict[str, Any]) -> dict[str, Any]:
        mean, std = np.array(MEAN, np.float32), np.array(STD, np.float32)
        out = np.empty((len(rows["id"]), 3, SIZE, SIZE), np.float32)
        for place, index in enumerate(rows["id"]):
            random = np.random.default_rng(index)
            image = simplejpeg.decode_jpeg(files[index % len(files)].read_bytes())
            scale = np.sqrt(random.uniform(0.25, 1.0))
            height, width = int(image.shape[0] * scale), int(image.shape[1] * scale)
            top = random.integers(0, image.shape[0] - height, endpoint=True)
            left = random.integers(0, image.shape[1] - width, endpoint=True)
            image = cv2.resize(image[top : top + height, left : left + width], (SIZE, SIZE))
            if random.random() < 0.5:
                image = image[:, ::-1]
            out[place] = ((image - mean) / std).transpose(2, 0, 1)
        return {"image": out}

    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    context.enable_progress_bars = False
    work: Callable[..., Any] = arrays if job == "arrays" else images
    data = ray.data.range(batches * BATCH, override_num_blocks=batches).map_batches(work, batch_size=BATCH, num_cpus=1)
    for batch in data.iter_torch_batches(batch_size=BATCH, prefetch_batches=3 * nodes):
        yield batch["image"]


def measure(batches: Iterator[torch.Tensor], count: int) -> dict[str, float]:
    """Return milliseconds per batch, after the first batches; the loop reads one number of each batch."""
    begin, cpu = 0.0, 0.0
    for number, batch in enumerate(batches):
        assert tuple(batch.shape) == (BATCH, 3, SIZE, SIZE)
        float(batch[0, 0, 0, 0])
        if number == WARM - 1:
            begin, cpu = time.perf_counter(), tree_cpu()
        if number == count - 1:
            seconds, cpu_seconds = time.perf_counter() - begin, tree_cpu() - cpu
    return {"wall_ms": 1000 * seconds / (count - WARM), "cpu_ms": 1000 * cpu_seconds / (count - WARM)}


@contextmanager
def local_cluster(nodes: int) -> Iterator[None]:
    """Run a local cluster: a node without CPUs for this process, and loader nodes with one CPU each."""
    import ray
    from ray.cluster_utils import Cluster

    store = {"object_store_memory": 1 << 30}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **store})
    try:
        for _ in range(nodes):
            cluster.add_node(num_cpus=1, **store)
        ray.init(address=cluster.address, log_to_driver=False)
        yield
    finally:
        ray.shutdown()
        cluster.shutdown()


def run(jobs: list[str], nodes: int, rounds: int, count: int, files: list[Path]) -> dict[str, Any]:
    """Return all measurements, by job and rival."""
    found: dict[str, Any] = {}
    with local_cluster(nodes):
        for job in jobs:
            for _ in range(rounds):
                for name, rival in (("dali-proxy", ours), ("ray-data", ray_data)):
                    times = measure(rival(job, count, nodes, files), count)
                    found.setdefault(job, {}).setdefault(name, []).append(times)
                    print(job, name, {key: round(value, 1) for key, value in times.items()}, flush=True)
    return found


def main() -> None:
    """Measure, and print the result as JSON, and as a table of medians."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="folder of JPEG files")
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=list(JOBS))
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batches", type=int, default=40)
    arguments = parser.parse_args()
    files = sorted(arguments.folder.rglob("*.jp*g"))
    found = run(arguments.jobs, arguments.nodes, arguments.rounds, arguments.batches, files)
    print(json.dumps({"machine": describe_machine(), "versions": describe_versions(), "jobs": found}))
    for job, rivals in found.items():
        for name, rounds in rivals.items():
            medians = (statistics.median(each[key] for each in rounds) for key in ("wall_ms", "cpu_ms"))
            print(f"| {job} | {name} | " + " | ".join(f"{each:.1f}" for each in medians) + " |")


if __name__ == "__main__":
    main()
