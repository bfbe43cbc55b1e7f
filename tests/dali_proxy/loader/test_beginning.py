"""Loops that begin while others run: in other threads, or in workers that inherit them."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterator

import pytest
import torch

from dali_proxy import DALIServer, DataLoader
from tests.dali_proxy.indexed import IndexDataset, affine


class Drawing(torch.utils.data.Sampler[int]):
    """Draws from torch's default generator for a millisecond."""

    def __len__(self) -> int:
        return 8

    def __iter__(self) -> Iterator[int]:
        return iter(torch.randperm(200_000)[:8].tolist())


def test_workers_are_not_forked_while_another_loop_draws_its_order() -> None:
    """Such workers would inherit the generator's locked lock, which torch acquires first in a worker."""
    over = threading.Event()
    with DALIServer(affine()) as server:
        dataset = IndexDataset(8, server.proxy)

        def begin_loops() -> None:
            loader = DataLoader(server, dataset, batch_size=4, num_workers=0, sampler=Drawing())
            while not over.is_set():
                iter(loader).close()

        other = threading.Thread(target=begin_loops)
        other.start()
        try:
            for _ in range(15):
                loader = DataLoader(server, dataset, 4, num_workers=2, timeout=100, multiprocessing_context="fork")
                assert len(list(loader)) == 2
        finally:
            over.set()
            other.join()


@pytest.mark.parametrize("persistent", [False, True])
def test_garbage_that_a_forked_worker_inherits_is_not_finalized_there(
    persistent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that is killed meanwhile would keep the locks of another loop's queues forever."""
    errors: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", errors.append)
    with DALIServer(affine()) as server:
        loader = DataLoader(
            server, IndexDataset(8, server.proxy), 4, num_workers=1, persistent_workers=persistent, timeout=100
        )
        iterator = iter(loader)
        next(iterator)
        gc.disable()
        try:
            cycle: list[object] = [iterator, loader]
            cycle.append(cycle)
            ended = iterator._loop.batches._workers_done_event  # type: ignore[union-attr]
            del iterator, loader, cycle
            child = os.fork()
            if child == 0:
                gc.collect()
                os._exit(len(errors) + ended.is_set())
            assert os.waitpid(child, 0)[1] == 0
        finally:
            gc.enable()
            gc.collect()
    assert not errors
