"""Loops that several threads begin at the same time."""

from __future__ import annotations

import threading
from collections.abc import Iterator

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
                loader = DataLoader(server, dataset, 4, num_workers=2, timeout=30, multiprocessing_context="fork")
                assert len(list(loader)) == 2
        finally:
            over.set()
            other.join()
