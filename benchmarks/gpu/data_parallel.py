"""Train a network on several GPUs from each loader: ``python -m benchmarks.gpu.data_parallel``.

Each GPU has a rank: a process with the same number of cores, however many GPUs take part. The ranks train one network
(DistributedDataParallel). For each loader, training from it and training on batches that are already on the GPUs take
turns in short blocks, as in `benchmarks.gpu.training`. Two figures say what the loader costs: its share of the speed
with resident batches, and this share relative to the one on a single GPU.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import psutil
import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from benchmarks.datasets import make_dataset
from benchmarks.gpu.trainer import Trainer
from benchmarks.gpu.training import KIND, Share, quartiles, train_from
from benchmarks.graph import make_pipeline
from benchmarks.machine import core_count, describe_machine, describe_versions
from benchmarks.measurement import MB, tree_memory
from benchmarks.ranks import RankError, run_ranks, wait_for_others
from benchmarks.report import save
from benchmarks.rivals.base import Batch, Rival
from benchmarks.rivals.nvidia_reader import NvidiaReader
from benchmarks.rivals.ours import PLACEMENTS, Ours
from benchmarks.rivals.torch_best import TorchBest
from benchmarks.session import RESULTS
from benchmarks.workload import FILES, READER_KIND, Setup, prepare_images

CORES = 16
"""Cores of each rank, if the machine has as many."""

DEADLINE = timedelta(seconds=60)
"""How long a rank waits for the others. Loaders start within this time."""


class SharedServer(Ours):
    """One server with one pool of workers for all ranks of the machine; each rank has its own loader.

    By default, the server has a process for each rank.
    """

    def stream(self, setup: Setup) -> Iterator[Batch]:
        """Load through the server of local rank 0."""
        import dali_proxy
        import pipeline
        from dali_proxy.distributed import DistributedBatchSampler, shared_server

        whole = replace(setup, shard=(0, 1), threads=-1)  # by default, the threads of the whole machine
        with shared_server(make_pipeline(pipeline, whole), **self.options) as server:
            self._server = server
            dataset = make_dataset(whole, server.proxy)
            batches = DistributedBatchSampler(dataset, setup.batch_size, shuffle=False)
            yield from dali_proxy.DataLoader(server, dataset, batch_sampler=batches)


def loaders(device: str) -> dict[str, Rival]:
    """Return the loaders by name: a server for each rank, one for all ranks, and those of other libraries."""
    rivals: list[Rival] = [TorchBest(), NvidiaReader()]
    if device == "cpu":
        rivals += [Ours("ours"), SharedServer("ours, shared"), SharedServer("ours, 1 process", num_processes=1)]
    else:
        rivals += [Ours(f"ours, {place}", placement=place) for place in PLACEMENTS]
        rivals += [
            SharedServer(f"ours, shared, {place}", placement=place) for place in ("engine", "consumer", "server")
        ]
        rivals.append(SharedServer("ours, 1 process, consumer", placement="consumer", num_processes=1))
    return {rival.name: rival for rival in rivals}


class RankTrainer(Trainer):
    """The network of one rank. All ranks take the same number of steps."""

    def __init__(self, device: str, network: str) -> None:
        super().__init__(device, network)
        here = [self.device] if self.on_gpu else None
        self.model = DistributedDataParallel(self.model, device_ids=here)
        self._answers = distributed.new_group(backend="gloo", timeout=DEADLINE)

    def goes_on(self, wanted: bool) -> bool:
        """Return whether any rank wants another step, without waiting for the GPU."""
        answer = torch.tensor(int(wanted))
        distributed.all_reduce(answer, distributed.ReduceOp.MAX, group=self._answers)
        return bool(answer)


@dataclass(frozen=True)
class RankShare:
    """Training from one loader on one rank.

    Attributes:
        share: rates of this rank from the loader, and with resident batches.
        memory_mb: proportional memory (PSS) of the rank's process and its descendants.
        gpu_memory_mb: memory of its GPU that all processes use.
    """

    share: Share
    memory_mb: float
    gpu_memory_mb: float

    @classmethod
    def from_json(cls, printed: dict[str, Any]) -> RankShare:
        """Read what a rank printed."""
        share = {name: tuple(value) if isinstance(value, list) else value for name, value in printed["share"].items()}
        return cls(Share(**share), printed["memory_mb"], printed["gpu_memory_mb"])


@dataclass(frozen=True)
class Result:
    """Training from one loader on a number of GPUs.

    Attributes:
        gpus: number of ranks.
        loader: name of the loader.
        batch_size: samples in a batch of each rank.
        rates: samples per second of all ranks together, one figure per block.
        shares: these rates divided by those with resident batches before and after.
        resident: samples per second with resident batches, the median.
        cpu_cores: cores that all ranks used while training from the loader.
        memory_mb: memory of each rank's processes.
        gpu_memory_mb: memory in use on each GPU.
        chosen: what ``placement="auto"`` chose, and why, on each rank; empty for other loaders.
    """

    gpus: int
    loader: str
    batch_size: int
    rates: list[float]
    shares: list[float]
    resident: float
    cpu_cores: float
    memory_mb: list[float]
    gpu_memory_mb: list[float]
    chosen: list[str]

    @classmethod
    def of_ranks(cls, ranks: Sequence[RankShare]) -> Result:
        """Add up what the ranks measured."""
        shares = [rank.share for rank in ranks]
        rates = [sum(numbers) for numbers in zip(*(share.rates for share in shares), strict=True)]
        resident = [sum(numbers) for numbers in zip(*(share.resident for share in shares), strict=True)]
        total = replace(shares[0], rates=tuple(rates), resident=tuple(resident))
        return cls(
            len(ranks), total.loader, total.batch_size, rates, total.shares, statistics.median(resident),
            sum(share.cpu_cores for share in shares), [rank.memory_mb for rank in ranks],
            [rank.gpu_memory_mb for rank in ranks], [share.chosen for share in shares if share.chosen],
        )  # fmt: skip

    @property
    def share(self) -> float:
        """The median of the shares."""
        return statistics.median(self.shares)

    def row(self, one: Result | None) -> str:
        """Return a line of the table.

        Args:
            one: The result of the same loader on one GPU, if it was measured.
        """
        low, high = quartiles(self.shares)
        rate, spread = statistics.median(self.rates), f"{low:.1%}..{high:.1%}"
        compared = ["-", "-", "-"]
        if one is not None:
            of_one = statistics.median(one.rates) * self.gpus, one.resident * self.gpus
            compared = [f"{self.share / one.share:.1%}", f"{rate / of_one[0]:.1%}", f"{self.resident / of_one[1]:.1%}"]
        line = (
            f"{self.gpus:4}  {self.batch_size:5}  {self.loader:27}{rate:9,.0f}{self.resident:10,.0f}{self.share:8.1%}"
            f"  {spread:15}{compared[0]:>9}{compared[1]:>12}{compared[2]:>10}{self.cpu_cores:7.1f}"
            f"{max(self.memory_mb):9,.0f}{max(self.gpu_memory_mb):9,.0f}"
        )
        return "\n".join([line, *(f"      {reason}" for reason in self.chosen)])


HEAD = (
    f"{'GPUs':4}  {'batch':5}  {'loader':27}{'images/s':>9}{'resident':>10}{'share':>8}  {'range':15}{'of one':>9}"
    f"{'efficiency':>12}{'resident':>10}{'cores':>7}{'MB/rank':>9}{'GPU MB':>9}"
)


def measure(names: Sequence[str], options: argparse.Namespace) -> Iterator[Result]:
    """Train on each number of GPUs from each loader.

    Args:
        names: Names of `loaders`.
        options: The options of the command line.

    Yields:
        The results. If a rank fails, the remaining ones of its processes are missing, and its message is printed.
    """
    folder = prepare_images(options.files)
    nvidias = [
        name for name in names if name == NvidiaReader.name
    ]  # has its own CUDA libraries, and so its own processes
    for count in options.gpus:
        for group in filter(None, ([name for name in names if name not in nvidias], nvidias)):
            with tempfile.TemporaryDirectory() as meeting:
                command = [
                    "benchmarks.gpu.data_parallel", "--as-rank", str(folder), "--store", f"{meeting}/store",
                    "--device", options.device, "--seconds", str(options.seconds),
                    "--batch-sizes", *map(str, options.batch_sizes), "--network", options.network, "--loaders", *group,
                ]  # fmt: skip
                try:
                    ranks: Sequence[Sequence[Any]] = run_ranks(command, count, cores_per_rank(options.gpus))
                except RankError as error:
                    print(f"{count} GPUs, {', '.join(group)}: {error}", file=sys.stderr)
                    ranks = error.results
            for results in zip(*ranks, strict=False):  # a rank that failed has fewer
                yield Result.of_ranks([RankShare.from_json(result) for result in results])


def cores_per_rank(counts: Sequence[int]) -> int:
    """Return the number of cores of each rank, for every number of GPUs."""
    return min(CORES, core_count() // max(counts))


def run_rank(options: argparse.Namespace) -> None:
    """Train as one rank, and print its results."""
    from dali_proxy.distributed import environment

    here = environment()
    here.bind()
    on_gpu = options.device == "cuda"
    device_id = here.local_rank if on_gpu else None
    if on_gpu:
        torch.cuda.set_device(device_id)
    distributed.init_process_group(
        "cpu:gloo,cuda:nccl" if on_gpu else "gloo",
        init_method=f"file://{options.store}", rank=here.rank, world_size=here.world_size, timeout=DEADLINE,
    )  # fmt: skip
    trainer = RankTrainer("cpu" if device_id is None else f"cuda:{device_id}", options.network)
    wait_for_others()
    for batch_size in options.batch_sizes:
        for name in options.loaders:
            rival = loaders(options.device)[name]
            kind = READER_KIND if isinstance(rival, NvidiaReader) else KIND
            workers = here.core_budget - 2 if isinstance(rival, TorchBest) else here.num_workers
            setup = Setup(
                kind, options.as_rank, batch_size, max(1, workers), here.num_threads, device_id,
                shard=(here.rank, here.world_size),
            )  # fmt: skip
            watched = _Watched(rival, device_id)
            (share,) = train_from(watched, options.network, setup, options.seconds, trainer=trainer)
            print(json.dumps(asdict(RankShare(share, watched.memory_mb, watched.gpu_memory_mb))), flush=True)
            distributed.barrier()
    distributed.destroy_process_group()


class _Watched:
    """A loader whose memory is measured when it reports, while it runs."""

    def __init__(self, rival: Rival, device_id: int | None) -> None:
        self._rival = rival
        self._device_id = device_id
        self.memory_mb = self.gpu_memory_mb = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rival, name)

    def report(self) -> str:
        with suppress(psutil.NoSuchProcess):  # a process of the loader has ended
            self.memory_mb = tree_memory(psutil.Process())[0]
        if self._device_id is not None:
            free, total = torch.cuda.mem_get_info(self._device_id)
            self.gpu_memory_mb = (total - free) / MB
        return self._rival.report()


def main() -> int:
    """Measure, print, and save JSON."""
    options = parser().parse_args()
    if options.as_rank:
        run_rank(options)
        return 0
    names = []
    for name, rival in loaders(options.device).items():
        if options.loaders and name not in options.loaders:
            continue
        if reason := rival.unavailable():
            print(f"{name} left out: {reason}")
        else:
            names.append(name)
    if options.network != "tiny" and importlib.util.find_spec("torchvision") is None:
        print("torchvision is not installed, which has the network")
        return 1
    print(HEAD, flush=True)
    results: list[Result] = []
    for result in measure(names, options):
        results.append(result)
        same = [one for one in results if (one.loader, one.batch_size) == (result.loader, result.batch_size)]
        print(result.row(same[0] if same[0].gpus == 1 else None), flush=True)
    document: dict[str, Any] = {
        "date": date.today().isoformat(),
        "command": "python -m benchmarks.gpu.data_parallel " + " ".join(sys.argv[1:]),
        "machine": describe_machine(),
        "versions": describe_versions(),
        "cores_per_rank": cores_per_rank(options.gpus),
        "results": [{**asdict(result), "share": result.share} for result in results],
    }
    if options.output:
        path = save(document, options.output, 0 if options.device == "cuda" else None, "-data-parallel")
        print(f"Saved {path.name}.")
    return 0


def parser() -> argparse.ArgumentParser:
    """Create the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu.data_parallel",
        description="Train one network on several GPUs from each loader, and on batches that are already there.",
    )
    found = torch.cuda.device_count()
    counts = [count for count in (1, 2, 4, 8) if count <= found]
    add = made.add_argument
    add("--gpus", nargs="+", type=int, default=counts or [1, 2], help="numbers of GPUs (default: %(default)s)")
    names = ", ".join(f'"{name}"' for name in loaders("cuda"))
    add("--loaders", nargs="+", metavar="NAME", help=f"{names} (default: all)")
    add("--batch-sizes", nargs="+", type=int, default=[256], help="samples of each rank (default: %(default)s)")
    add("--network", default="resnet50", help='a model of torchvision, or "tiny" (default: %(default)s)')
    add("--device", choices=["cuda", "cpu"], default="cuda" if found else "cpu", help="(default: %(default)s)")
    add("--seconds", type=float, default=12.0, help="length of each training (default: %(default)s)")
    add("--files", type=int, default=FILES, help="number of JPEGs to create (default: %(default)s)")
    add("--output", type=Path, default=RESULTS, help="folder of the JSON (default: benchmarks/results)")
    add("--as-rank", type=Path, help=argparse.SUPPRESS)
    add("--store", type=Path, help=argparse.SUPPRESS)
    return made


if __name__ == "__main__":
    sys.exit(main())
