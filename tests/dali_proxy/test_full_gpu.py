"""A GPU whose memory is full: the right data, or an error of one batch. Afterwards everything works again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
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
from tests.dali_proxy.test_faults_gpu import BATCH, PLACED, TRAINING, Numbers, check_epoch, doubling
from tests.environment import ROOT, with_project
from tests.waiting import PATIENCE_S, wait_until

pytestmark = [pytest.mark.gpu, pytest.mark.gpu_alone, pytest.mark.timeout(80, func_only=True)]

SMALL, LARGE = 1 << 10, 4 << 20
"""Numbers in a sample. Each batch of large samples takes 128 MB."""

LEFT = 24 << 20
"""Bytes that stay free: enough for small batches."""

SOME = 64 << 20
"""Bytes by which the memory in use may differ between two measurements."""


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


@contextmanager
def filled(left: int = LEFT) -> Iterator[None]:
    """Allocate all of the GPU's memory except for `left` bytes, not through torch."""
    import cupy

    runtime = cupy.cuda.runtime
    torch.cuda.empty_cache()
    cupy.get_default_memory_pool().free_all_blocks()
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
    held = []
    for size in (4 << 30, 256 << 20, 32 << 20):
        while free() - size >= left:
            held.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
    del held


def check(batch: Any) -> None:
    doubled, indices = batch
    assert doubled.is_cuda
    for row, index in zip(doubled, indices.tolist(), strict=True):
        assert (float(row.min()), float(row.max())) == (2.0 * index, 2.0 * index)


@pytest.mark.parametrize(("mode", "placement"), PLACED)
def test_batch_that_finds_no_memory_is_an_error_of_its_own(mode: Any, placement: Any) -> None:
    with DALIServer(doubling(), mode=mode, placement=placement) as server:
        check_epoch(server)
        loader = DataLoader(server, Sizes(server.proxy, large=1), BATCH)
        iterator = iter(loader)
        with filled():
            check(next(iterator))
            begin = time.monotonic()
            with pytest.raises(BatchError, match=r"(?i)out of memory"):
                next(iterator)
            assert time.monotonic() - begin < 10
            check(next(iterator))
            check_epoch(server)
        for batch in loader:  # with the large one
            check(batch)


@pytest.mark.parametrize(("mode", "placement"), PLACED)
def test_memory_that_torch_caches_is_used(mode: Any, placement: Any) -> None:
    """In the process of the training; a server in its own process can't have it."""
    with DALIServer(doubling(), mode=mode, placement=placement) as server:
        check_epoch(server)
        iterator = iter(DataLoader(server, Sizes(server.proxy, large=1), BATCH))
        check(next(iterator))
        cache_in_torch()
        cached = torch.cuda.memory_reserved()
        assert free() < 2 * LEFT + SOME
        if (mode, placement) == ("process", "server"):
            with pytest.raises(BatchError, match=r"(?i)out of memory"):
                next(iterator)
        else:
            check(next(iterator))
            assert mode == "process" or torch.cuda.memory_reserved() < cached
        torch.cuda.empty_cache()
        check(next(iterator))


@pytest.mark.parametrize(("mode", "placement"), PLACED)
def test_training_that_runs_out_of_memory_goes_on(mode: Any, placement: Any) -> None:
    with DALIServer(doubling(), mode=mode, placement=placement) as server:
        iterator = iter(DataLoader(server, Numbers(server.proxy), BATCH, num_workers=1))
        found = []
        for doubled, indices in iterator:
            with pytest.raises(torch.OutOfMemoryError):
                torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
            assert torch.equal(doubled[:, 0].cpu(), indices * 2.0)
            found += indices.tolist()
        assert found == list(range(len(found)))
        assert found


@pytest.mark.parametrize("mode", ["process", "thread"])
def test_server_that_starts_on_a_full_gpu(mode: Any) -> None:
    torch.cuda.synchronize()
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


@pytest.mark.parametrize(("mode", "placement"), [("process", "server"), ("thread", "server")])
def test_memory_of_a_killed_training_and_its_server_comes_back(mode: str, placement: str) -> None:
    before = free()
    with subprocess.Popen(
        [sys.executable, "-c", TRAINING, mode, placement, str(ROOT)],
        stdout=subprocess.PIPE,
        env=with_project(),
        text=True,
        start_new_session=True,
    ) as training:
        assert training.stdout is not None
        try:
            assert int(training.stdout.readline())
            assert training.stdout.readline() == "trains\n"
            assert before - free() > 100 << 20, "it has contexts"
            os.kill(training.pid, signal.SIGKILL)
            training.wait(PATIENCE_S)
            wait_until(lambda: before - free() < SOME, "the memory")
        finally:
            if training.poll() is None:
                training.kill()
