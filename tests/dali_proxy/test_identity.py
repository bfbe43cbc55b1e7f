"""In any order of events, each batch is the requested one, and samples aren't mixed up."""

from __future__ import annotations

import multiprocessing
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data
from torch.utils.data import default_collate

from dali_proxy import BatchError, DALIServer, DataLoader
from tests.dali_proxy.indexed import (
    IndexDataset,
    IndexStream,
    RaisingDataset,
    TwoViewsDataset,
    affine,
    affine_of,
    check_affine,
)

BATCH = 4


class SometimesDataset(IndexDataset):
    """Calls the proxy for two of three samples, with one buffer for all of them."""

    buffer = np.zeros(3, np.int32)

    def __getitem__(self, index: int) -> Any:
        self.buffer[:] = index
        made = self.transform(self.buffer) if index % 3 else torch.full((3,), affine_of(index))
        self.buffer[:] = -1
        return made, index


def mixed_collate(samples: list[Any]) -> Any:
    """Collate placeholders and other samples separately, with one sample twice."""
    made = [image for image, index in samples if index % 3]
    plain = [image for image, index in samples if not index % 3]
    return {
        "made": default_collate([*made, made[0]]),
        "plain": plain,
        "alone": made[-1],
        "indices": [index for _, index in samples],
    }


def check_mixed(batch: Any) -> list[int]:
    indices: list[int] = batch["indices"]
    made = [index for index in indices if index % 3]
    check_affine(batch["made"], torch.tensor([*made, made[0]]))
    assert batch["alone"].tolist() == [affine_of(made[-1])] * 3
    assert [image[0] for image in batch["plain"]] == [affine_of(index) for index in indices if not index % 3]
    return indices


def check_views(batch: Any) -> list[int]:
    first, second, indices = batch
    check_affine(second, indices + 1000)
    return check_affine(first, indices)


def check_plain(batch: Any) -> list[int]:
    return check_affine(*batch)


class Epochs:
    """Loops over a loader repeatedly, and checks which batch comes next.

    Args:
        loader: the loader.
        check: checks a batch and returns its indices.
        expected: indices of an epoch, batch by batch; None for a random order.
        produce: converts the loader's batches to data.
    """

    def __init__(
        self,
        loader: Any,
        check: Callable[[Any], list[int]],
        expected: list[list[int]] | None,
        produce: Callable[[Any], Any] = lambda batch: batch,
    ) -> None:
        self.loader, self.check, self.expected, self.produce = loader, check, expected, produce
        self.iterator: Iterator[Any] | None = None
        self.seen: list[list[int]] = []
        self.epochs = 0

    def step(self) -> None:
        if self.iterator is None:
            self.iterator, self.seen = iter(self.loader), []
        try:
            batch = next(self.iterator)
        except StopIteration:
            assert sorted(index for indices in self.seen for index in indices) == list(range(20))
            self.iterator = None
            self.epochs += 1
            return
        self.seen.append(self.check(self.produce(batch)))
        if self.expected is not None:
            assert self.seen[-1] == self.expected[len(self.seen) - 1]

    def leave(self) -> None:
        self.iterator = None


IN_ORDER = [list(range(start, start + BATCH)) for start in range(0, 20, BATCH)]


def all_kinds(server: DALIServer) -> list[Epochs]:
    def loader(dataset: Any, **options: Any) -> DataLoader:
        return DataLoader(server, dataset(20, server.proxy), **{"batch_size": BATCH, **options})

    theirs = torch.utils.data.DataLoader(IndexDataset(20, server.proxy), batch_size=BATCH, num_workers=1)
    lasting = loader(IndexDataset, num_workers=2, persistent_workers=True)
    return [
        Epochs(loader(IndexDataset), check_plain, IN_ORDER),
        Epochs(loader(IndexDataset, shuffle=True, num_workers=1), check_plain, None),
        Epochs(lasting, check_plain, IN_ORDER),
        Epochs(loader(TwoViewsDataset, num_workers=2), check_views, IN_ORDER),
        Epochs(loader(SometimesDataset, num_workers=1, collate_fn=mixed_collate), check_mixed, IN_ORDER),
        Epochs(loader(IndexStream, num_workers=2), check_plain, None),
        Epochs(loader(IndexStream, batch_size=5), check_plain, None),
        Epochs(theirs, check_plain, IN_ORDER, server.produce_data),
    ]


def test_loops_of_all_kinds_take_turns_and_are_abandoned(serve: Callable[..., DALIServer]) -> None:
    rng = random.Random(1)
    server = serve(affine())
    loops = all_kinds(server)
    for _ in range(50):
        loop = rng.choice(loops)
        for _ in range(rng.choice((1, 1, 2, 6))):
            loop.step()
        if rng.random() < 0.15:
            loop.leave()
    for loop in loops:
        loop.leave()
        while not loop.epochs:
            loop.step()


def test_threads_that_loop_at_the_same_time(serve: Callable[..., DALIServer]) -> None:
    server = serve(affine())
    failed: list[BaseException] = []

    def loop(number: int) -> None:
        try:
            dataset = TwoViewsDataset(20, server.proxy)
            loader = DataLoader(server, dataset, batch_size=BATCH, num_workers=number % 2)
            for epoch in range(2):
                for count, batch in enumerate(loader):
                    assert check_views(batch) == IN_ORDER[count]
                    if epoch == 0 and count == number:
                        break
        except BaseException as error:  # noqa: BLE001  # raised in the test's thread
            failed.append(error)

    threads = [threading.Thread(target=loop, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failed


def train(server: DALIServer, seed: int) -> None:
    """Run another training process, whose loops take turns, too."""
    loops = all_kinds(server)
    loops = [loops[0], loops[3], loops[5]]
    rng = random.Random(seed)
    for _ in range(20):
        rng.choice(loops).step()


def test_training_processes_that_loop_at_the_same_time(serve: Callable[..., DALIServer]) -> None:
    server = serve(affine())
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=train, args=(server, seed)) for seed in range(2)]
    for process in processes:
        process.start()
    train(server, 7)
    for process in processes:
        process.join(120)
        assert process.exitcode == 0


@pytest.mark.parametrize("persistent_workers", [False, True])
def test_epochs_after_samples_that_raised(server: DALIServer, persistent_workers: bool) -> None:
    loader = DataLoader(
        server,
        RaisingDataset(20, server.proxy),
        batch_size=BATCH,
        num_workers=2,
        persistent_workers=persistent_workers,
    )
    for _ in range(2):
        iterator = iter(loader)
        seen = []
        while True:
            try:
                seen.append(check_plain(next(iterator)))
            except KeyError:
                seen.append([])
            except StopIteration:
                break
        assert seen == [indices if RaisingDataset.bad not in indices else [] for indices in IN_ORDER]


class WideDataset(IndexDataset):
    """One sample has more dimensions than the others: its batch fails in the server or earlier."""

    def __getitem__(self, index: int) -> Any:
        return self.transform(np.full((1, 3) if index == 6 else 3, index, np.int32)), index


def test_batches_around_an_unsubmitted_one_are_right(server: DALIServer) -> None:
    iterator = iter(DataLoader(server, WideDataset(20, server.proxy), batch_size=BATCH, num_workers=1))
    assert check_plain(next(iterator)) == IN_ORDER[0]
    with pytest.raises((BatchError, TypeError), match="dimensions"):
        next(iterator)
    assert [check_plain(batch) for batch in iterator] == IN_ORDER[2:]
