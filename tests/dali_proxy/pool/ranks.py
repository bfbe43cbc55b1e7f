"""The ranks of the tests of `distributed.shared_server`: real processes with gloo, which share one server."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from dali_proxy import DALIServer, DataLoader, LastBatchPolicy, distributed
from dali_proxy.errors import ProxyError
from pipeline import fn, pipeline_def
from tests.dali_proxy.indexed import SCALE, SHIFT, IndexDataset, IndexStream, RaisingDataset, error_of, noisy, sample
from tests.waiting import wait_until

SAMPLES, BATCH = 45, 4

Batches = list[tuple[list[Any], list[int]]]


class DeadlyDataset(IndexDataset):
    """Kills its process at one index: always, or the first time only, which a file records."""

    def __init__(self, length: int, transform: Any, deadly: int, first: Path | None) -> None:
        super().__init__(length, transform)
        self.deadly, self.first = deadly, first

    def __getitem__(self, index: int) -> Any:
        if index == self.deadly:
            with suppress(FileExistsError):
                if self.first is not None:
                    self.first.touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(index)


class LargeDataset(IndexDataset):
    """Returns a large array beside each sample; without a transform, an object that can't be pickled."""

    def __getitem__(self, index: int) -> Any:
        if self.transform is None:
            return threading.Lock()
        return self.transform(sample(index)), torch.full((64, 1 << 10), index)


class CountedDataset(IndexDataset):
    """Appends a byte to a file for each sample that is read."""

    def __init__(self, length: int, transform: Any, count: Path) -> None:
        super().__init__(length, transform)
        self.count = count

    def __getitem__(self, index: int) -> Any:
        with self.count.open("ab") as file:
            file.write(b".")
        return super().__getitem__(index)


def loader_of(
    server: DALIServer, policy: LastBatchPolicy = LastBatchPolicy.PARTIAL, dataset: Any = None, **options: Any
) -> DataLoader:
    """Return the loader of this rank."""
    dataset = IndexDataset(SAMPLES, server.proxy) if dataset is None else dataset
    batches = distributed.DistributedBatchSampler(dataset, BATCH, seed=3, last_batch_policy=policy)
    return DataLoader(server, dataset, batch_sampler=batches, num_workers=0, **options)


def epochs(server: DALIServer) -> dict[str, Batches]:
    """Return the batches of two epochs with each policy, and of a loader whose sampler knows nothing of the ranks."""
    found = {}
    for policy in LastBatchPolicy:
        loader = loader_of(server, policy)
        found[policy.name] = [batch for _ in range(2) for batch in plain(loader)]
    found["other sampler"] = plain(DataLoader(server, IndexDataset(10, server.proxy), batch_size=BATCH, num_workers=0))
    return found


def plain(loop: Any) -> Batches:
    """Return the values and indices of batches."""
    return [(values.tolist(), indices.tolist()) for values, indices in loop]


def join_ranks(rank: int, world: int, folder: Path) -> None:
    """Become one of the ranks."""
    numbers = {"RANK": rank, "WORLD_SIZE": world, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": world}
    os.environ.update({name: str(number) for name, number in numbers.items()})
    dist.init_process_group("gloo", init_method=f"file://{folder / 'store'}", rank=rank, world_size=world)


@pipeline_def(batch_size=BATCH, num_threads=2)
def on_gpu() -> Any:
    """Compute 3 x + 7 on the GPU."""
    return fn.external_source(name="x").gpu() * SCALE + SHIFT


def run_rank_on_gpu(rank: int, world: int, folder: Path, results: Connection, devices: list[Any]) -> None:
    """Let a server on the GPU of rank 0 send results to the GPUs of all ranks. Each rank keeps all tensors."""
    join_ranks(rank, world, folder)
    refused = ""
    found: list[Any] = []
    try:
        with distributed.shared_server(on_gpu(device_id=devices[rank]), num_workers=1, placement="server") as server:
            dataset = IndexDataset(SAMPLES, server.proxy, width=1 << 18)  # 1 MB, so that copies take a while
            for _ in range(2):
                found += [(values * 1, indices) for values, indices in loader_of(server, dataset=dataset)]
                found += list(loader_of(server, dataset=dataset))
            wrong = [
                index
                for values, indices in found
                for row, index in zip(values, indices.tolist(), strict=True)
                if not bool((row == SCALE * index + SHIFT).all())
            ]
    except ProxyError as error:
        wrong, refused = [], str(error)
    results.send(("on", sorted({values.device.index for values, _ in found})))
    results.send(("wrong", wrong))
    results.send(("refused", refused))


def run_rank(rank: int, world: int, folder: Path, results: Connection) -> None:
    """Run one rank through all scenarios."""
    join_ranks(rank, world, folder)
    if world == 2:
        results.send(("refused", refusal()))
    # Only local rank 0 knows the seed.
    with distributed.shared_server(noisy() if rank == 0 else noisy(seed=8), num_workers=2) as server:
        results.send(("epochs", epochs(server)))
        results.send(("slow rank", slow_rank(rank, server, folder)))
        if rank == 1:
            results.send(("deaths", deaths(server, folder)))
            results.send(("batches", batches(server)))
        dist.barrier()
        if world > 2:
            results.send(("ends", ends(rank, server, folder)))
    results.send(("left", server.owned))


def run_member(rank: int, world: int, folder: Path, results: Connection) -> None:
    """Be one of several processes that need the same data, as in tensor parallelism."""
    join_ranks(rank, world, folder)
    distributed.set_ranks(0, 1, rank, world)
    with distributed.shared_server(noisy(), num_workers=1) as server:
        dist.barrier()
        results.send(("batches", plain(loader_of(server))))
        dist.barrier()
        results.send(("computed", {times.batches for times in server.stats().operators.values()}))


def refusal() -> str:
    """Return the error of different pipelines on the ranks."""
    try:
        with distributed.shared_server(noisy(batch_size=16 + dist.get_rank()), num_workers=0):
            return ""
    except Exception as error:  # noqa: BLE001  # the test looks at it
        return f"{type(error).__name__}: {error}"


def slow_rank(rank: int, server: DALIServer, folder: Path) -> int:
    """Let rank 1 take one batch while the others run an epoch. Return how many samples were read for it."""
    count = folder / f"count-{rank}"
    loop = iter(loader_of(server, dataset=CountedDataset(40 * SAMPLES, server.proxy, count)))
    next(loop)
    if rank != 1:
        assert len(plain(loop)) == len(loop) - 1
    dist.barrier()
    return count.stat().st_size


def deaths(server: DALIServer, folder: Path) -> dict[str, Any]:
    """Return what happens if dataset workers die."""
    dataset = DeadlyDataset(SAMPLES, server.proxy, 7, folder / "first")
    once = plain(DataLoader(server, dataset, batch_size=BATCH))
    loop = iter(DataLoader(server, DeadlyDataset(SAMPLES, server.proxy, 7, None), batch_size=BATCH))
    first = plain([next(loop)])
    try:
        next(loop)
        message = ""
    except ProxyError as error:
        message = f"{type(error).__name__}: {error}"
    return {"once": [indices for _, indices in once], "always": [indices for _, indices in first + plain(loop)],
            "message": message}  # fmt: skip


def batches(server: DALIServer) -> dict[str, Any]:
    """Return batches of several kinds, which one rank reads."""
    whole = plain(loader_of(server))
    loop = iter(first := loader_of(server))
    begin = plain([next(loop), next(loop)])
    second = loader_of(server)
    second.load_state_dict(first.state_dict())
    skipping = DataLoader(server, RaisingDataset(12, server.proxy), batch_size=BATCH, on_error="skip")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        skipped = plain(skipping)
    failing = iter(DataLoader(server, RaisingDataset(12, server.proxy), batch_size=BATCH))
    next(failing)
    stream = DataLoader(server, IndexStream(10, server.proxy), batch_size=BATCH)
    values, large = next(iter(DataLoader(server, LargeDataset(BATCH, server.proxy), batch_size=BATCH)))
    large += 1  # it is writable
    return {
        "resumed": begin + plain(second) == whole,
        "skipped": [indices for _, indices in skipped],
        "error": str(error_of(failing)),
        "stream": [indices for _, indices in plain(stream)],
        "large": (large.shape, large.min().item(), large.max().item(), len(values)),
        "unpicklable": str(error_of(iter(DataLoader(server, LargeDataset(1, None), batch_size=1, collate_fn=list)))),
    }


def ends(rank: int, server: DALIServer, folder: Path) -> dict[str, Any]:
    """Kill the last rank in its epoch, then, after the epoch of the others, rank 0. Return what the others get."""
    loop = iter(loader_of(server))
    first = plain([next(loop)])
    if rank == dist.get_world_size() - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    batches = first + plain(loop)
    dataset = IndexDataset(1 << 20, server.proxy)
    begin = time.monotonic()
    others = [folder / f"epoch-{other}" for other in range(1, dist.get_world_size() - 1)]
    try:
        for _ in loader_of(server, dataset=dataset):
            if rank == 0:
                wait_until(lambda: all(other.exists() for other in others))
                os.kill(os.getpid(), signal.SIGKILL)
            (folder / f"epoch-{rank}").touch()
            begin = time.monotonic()
        raise AssertionError("the owner has ended")
    except ProxyError as error:
        return {
            "batches": batches,
            "message": f"{type(error).__name__}: {error}",
            "seconds": time.monotonic() - begin,
        }
