"""`WindowedOrder`: orders in which the samples of a file stay near each other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from dali_proxy import DALIServer, DataLoader, WindowedOrder
from dali_proxy.distributed import DistributedBatchSampler
from pipeline.errors import ArgumentValueError
from tests.dali_proxy.indexed import IndexDataset, noisy

LENGTHS = [40, 0, 7, 100, 55, 98, 60, 40, 100]


def test_epoch_has_every_sample_once_within_its_window() -> None:
    order = WindowedOrder(LENGTHS, window=90, seed=3)
    drawn = order(0)
    assert sorted(drawn.tolist()) == list(range(500))
    files = np.searchsorted(np.cumsum(LENGTHS), drawn, "right")
    for file in range(len(LENGTHS)):
        places = np.flatnonzero(files == file)
        if len(places):
            assert places[-1] - places[0] < LENGTHS[file] + 2 * 90
    radius = order.radius(0)
    assert radius.largest < 90
    assert 18 < radius.mean < 27  # a quarter of the window
    assert 1.5 < radius.files < 5


def test_window_of_one_reads_files_in_order() -> None:
    drawn = WindowedOrder([3, 2, 4], window=1, seed=1)(0).tolist()
    assert sorted(tuple(part) for part in np.split(np.array(drawn), np.flatnonzero(np.diff(drawn) != 1) + 1)) in (
        [(0, 1, 2), (3, 4), (5, 6, 7, 8)],
        [(0, 1, 2, 3, 4), (5, 6, 7, 8)],
        [(0, 1, 2), (3, 4, 5, 6, 7, 8)],
    )


def test_orders_depend_on_seed_and_epoch_only() -> None:
    one, same, other = (WindowedOrder(LENGTHS, 90, seed) for seed in (3, 3, 4))
    assert one(5).tolist() == same(5).tolist()
    assert one(5).tolist() != one(6).tolist()
    assert one(5).tolist() != other(5).tolist()


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_epoch_resumes_with_other_ranks(ranks: int) -> None:
    order = WindowedOrder(LENGTHS, window=90, seed=3)
    first = DistributedBatchSampler(len(order), 20, order=order, rank=0, world_size=1)
    batches = iter(first)
    begun = [next(batches) for _ in range(7)]
    rest = []
    for rank in range(ranks):
        sampler = DistributedBatchSampler(len(order), 20 // ranks, order=order, rank=rank, world_size=ranks)
        sampler.load_state_dict(first.state_dict())
        rest.append(list(sampler))
    steps = [[index for batch in step for index in batch] for step in zip(*rest, strict=True)]
    assert [index for step in [*begun, *steps] for index in step] == order(0).tolist()


@pytest.mark.parametrize("workers", [0, 2])
def test_epoch_resumes_with_other_workers(workers: int, serve: Callable[..., DALIServer]) -> None:
    server = serve(noisy())
    order = WindowedOrder(LENGTHS, window=90, seed=3)

    def loader(num_workers: int) -> DataLoader:
        dataset = IndexDataset(len(order), server.proxy)
        sampler = DistributedBatchSampler(len(order), 4, order=order, rank=0, world_size=1)
        return DataLoader(server, dataset, batch_sampler=sampler, num_workers=num_workers)

    first = loader(1)
    batches = iter(first)
    drawn = [index for _ in range(5) for index in next(batches)[1].tolist()]
    resumed = loader(workers)
    resumed.load_state_dict(first.state_dict())
    del batches
    drawn += [index for _, indices in resumed for index in indices.tolist()]
    assert drawn == order(0).tolist()


def test_wrong_numbers_are_errors() -> None:
    for lengths, window in (([], 5), ([0], 5), ([3, -1], 5), ([3], 0)):
        with pytest.raises(ArgumentValueError):
            WindowedOrder(lengths, window)
