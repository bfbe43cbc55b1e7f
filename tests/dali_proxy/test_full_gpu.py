"""A GPU whose memory is full: the right data, or an error of one batch. Afterwards everything works again."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from dali_proxy import BatchError, DALIServer, DataLoader
from pipeline import errors
from tests.dali_proxy.test_faults_gpu import BATCH, PLACED, Numbers, check_epoch, doubling, running_training
from tests.waiting import PATIENCE_S, wait_until

pytestmark = [pytest.mark.gpu, pytest.mark.gpu_alone, pytest.mark.timeout(80, func_only=True)]

SMALL, LARGE = 1 << 10, 4 << 20
"""Numbers in a sample. Each batch of large samples takes 128 MB."""

LEFT = 64 << 20
"""Bytes that stay free: enough for small batches, and too few for large ones."""

SOME = 64 << 20
"""Bytes by which the memory in use may differ between two measurements."""

NEEDED = 4 << 30
"""Free bytes that a test needs at the beginning: for CUDA contexts of three processes and large batches."""


@pytest.fixture(autouse=True)
def memory() -> Iterator[None]:
    """Fail if others hold the memory, and free what the test leaves in this process's caches."""
    deadline = time.monotonic() + 10
    while (found := free_before()) < NEEDED:  # the driver frees the memory of a process after its end
        if time.monotonic() > deadline:
            pytest.fail(f"{found >> 20} MB of the GPU's memory are free. These use it:\n{users()}", pytrace=False)
        time.sleep(0.1)
    yield
    free_caches()


def free_before() -> int:
    """Return the number of free bytes; 0 if there are too few for a context of this process."""
    try:
        free_caches()
        return free()
    except RuntimeError:
        return 0


def users() -> str:
    """Return the processes that use the GPU, with their memory."""
    if shutil.which("nvidia-smi") is None:
        return "unknown processes (nvidia-smi is missing)"
    columns = "--query-compute-apps=pid,process_name,used_memory"
    return subprocess.run(["nvidia-smi", columns, "--format=csv"], capture_output=True, text=True, check=False).stdout


class Sizes(Dataset[Any]):
    """Batch `large` has large samples, all others have small ones."""

    def __init__(self, transform: Any, large: int, batches: int = 3) -> None:
        self.transform, self.large, self.length = transform, large, batches * BATCH

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        width = LARGE if index // BATCH == self.large else SMALL
        return self.transform(np.full(width, index, np.float32)), index


def free() -> int:
    torch.cuda.synchronize()
    return int(torch.cuda.mem_get_info()[0])


def free_caches() -> None:
    """Free the memory that the caching allocators of this process don't use."""
    import cupy

    torch.cuda.empty_cache()
    cupy.get_default_memory_pool().free_all_blocks()


@contextmanager
def filled(left: int = LEFT) -> Iterator[None]:
    """Allocate all of the GPU's memory except for `left` bytes, not through torch.

    Processes that use the GPU inside the block must have created their contexts, and loaded their kernels, before.
    """
    import cupy

    runtime = cupy.cuda.runtime
    free_caches()
    blocks = []
    try:
        for size in (4 << 30, 256 << 20, 16 << 20, 2 << 20):
            while runtime.memGetInfo()[0] - size >= left:
                try:
                    blocks.append(runtime.malloc(size))
                except runtime.CUDARuntimeError:
                    break
        yield
    finally:
        for block in blocks:
            runtime.free(block)


def cache_in_torch(left: int = LEFT) -> None:
    """Let torch's caching allocator hold all of the free memory except for `left` bytes, unused."""
    free_caches()  # CuPy's would be used first
    held: list[torch.Tensor] = []
    try:
        for size in (4 << 30, 256 << 20, 32 << 20):
            while free() - size >= left:
                held.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
    finally:
        held.clear()  # even if the traceback of a failure keeps this frame


def check(batch: Any) -> None:
    doubled, indices = batch
    assert doubled.is_cuda
    for row, index in zip(doubled, indices.tolist(), strict=True):
        assert (float(row.min()), float(row.max())) == (2.0 * index, 2.0 * index)


def check_small(server: DALIServer) -> None:
    """Check small batches, so that all processes have loaded their kernels: CUDA loads them on first use."""
    for batch in DataLoader(server, Sizes(server.proxy, large=-1), BATCH):
        check(batch)


@pytest.mark.parametrize(("mode", "placement"), PLACED)
def test_batch_that_finds_no_memory_is_an_error_of_its_own(mode: Any, placement: Any) -> None:
    with DALIServer(doubling(), mode=mode, placement=placement) as server:
        check_small(server)
        loader = DataLoader(server, Sizes(server.proxy, large=1), BATCH)
        iterator = iter(loader)
        with filled():
            check(next(iterator))
            begin = time.monotonic()
            with pytest.raises(BatchError, match=r"(?i)out of memory"):
                next(iterator)
            assert time.monotonic() - begin < 10
            check(next(iterator))
            check_small(server)
        for batch in loader:  # with the large one
            check(batch)


@pytest.mark.parametrize(("mode", "placement"), PLACED)
def test_memory_that_torch_caches_is_used(mode: Any, placement: Any) -> None:
    """In the process of the training; a server in its own process can't have it."""
    with DALIServer(doubling(), mode=mode, placement=placement) as server:
        check_small(server)
        iterator = iter(DataLoader(server, Sizes(server.proxy, large=1), BATCH))
        check(next(iterator))
        cache_in_torch()
        cached = torch.cuda.memory_reserved()
        assert free() < LEFT + SOME
        if (mode, placement) == ("process", "server"):
            with pytest.raises(BatchError, match=r"(?i)out of memory"):
                next(iterator)
        else:
            check(next(iterator))
            assert torch.cuda.memory_reserved() < cached
        free_caches()
        check(next(iterator))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of CuPy, for a stream without memory
@pytest.mark.parametrize("mode", ["process", "thread"])
def test_server_that_starts_on_a_full_gpu(mode: Any) -> None:
    with filled(1 << 20):
        begin = time.monotonic()
        try:
            with DALIServer(doubling(), mode=mode) as server:
                assert mode == "thread", "a thread uses the context of this process"
                check_epoch(server)
        except errors.PipelineError as error:
            assert "memory" in str(error)  # noqa: PT017 - the thread may also succeed
        assert time.monotonic() - begin < 30
    with DALIServer(doubling(), mode=mode) as server:
        check_epoch(server)


@pytest.mark.parametrize(("mode", "placement"), [("process", "server"), ("thread", "server")])
def test_memory_of_a_killed_training_and_its_server_comes_back(mode: str, placement: str) -> None:
    before = free()
    with running_training(mode, placement) as (training, _):
        assert before - free() > 100 << 20, "it has contexts"
        training.kill()
        training.wait(PATIENCE_S)
        wait_until(lambda: before - free() < SOME, "the memory")


@pytest.mark.parametrize(("mode", "placement"), PLACED)
def test_memory_is_flat_over_10_000_batches(mode: Any, placement: Any) -> None:
    class Few(Numbers):
        def __getitem__(self, index: int) -> Any:
            return self.transform(np.full(64, index, np.float32)), index

    size, batches = 2, 10_000
    with DALIServer(doubling(), mode=mode, placement=placement) as server:
        loader = DataLoader(server, Few(server.proxy, size * batches), size, num_workers=2)
        total, seen, used = torch.zeros((), dtype=torch.float64, device="cuda"), 0, []
        for number, (doubled, indices) in enumerate(loader):
            total += doubled.double().sum()
            seen += int(indices.sum())
            if number % 1000 == 999:
                used.append(free())
        assert total.item() == 2 * 64 * seen
        assert seen == sum(range(size * batches))
    assert max(used) - min(used) < SOME, f"free bytes after each 1,000 batches: {used}"
