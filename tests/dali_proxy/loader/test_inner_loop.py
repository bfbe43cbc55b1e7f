"""Loops that run while another loop reads a sample."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from dali_proxy import BatchError, DALIServer, DataLoader, ProxyError
from tests.dali_proxy.indexed import (
    IndexDataset,
    JpegDataset,
    RaisingDataset,
    affine,
    affine_of,
    check_affine,
    decoded,
    error_of,
    noisy,
    sample,
)

INNER = 6


@pytest.fixture
def servers() -> Iterator[tuple[DALIServer, DALIServer]]:
    """Start two servers of `noisy`."""
    with DALIServer(noisy(), mode="thread") as one, DALIServer(noisy(), mode="thread") as other:
        yield one, other


class Outer(IndexDataset):
    """Runs a separate loop in each sample, between two calls of the proxy."""

    def __init__(self, length: int, transform: Any, inner: Any) -> None:
        super().__init__(length, transform)
        self.inner = inner

    def __getitem__(self, index: int) -> Any:
        before = self.transform(sample(index))
        batches = torch.cat([values for values, _ in self.inner])
        return before, self.transform(sample(index + 1000)), batches, index


def rows(loader: Any) -> list[list[Any]]:
    return [
        [*(part[place].tolist() for part in batch[:3]), int(batch[3][place])]
        for batch in loader
        for place in range(len(batch[3]))
    ]


@pytest.mark.parametrize("same", [True, False])
def test_data_and_random_numbers_are_independent_of_the_number_of_workers(servers: Any, same: bool) -> None:
    one, other = servers[0], servers[0 if same else 1]
    found = []
    for outer_workers, inner_workers in ((0, 0), (0, 1), (2, 0)):
        inner = DataLoader(other, IndexDataset(INNER, other.proxy), 3, num_workers=inner_workers)
        outer = DataLoader(one, Outer(6, one.proxy, inner), 2, num_workers=outer_workers)
        found.append(rows(outer))
    assert found[0] == found[1] == found[2]
    for index, (before, after, inside, label) in enumerate(found[0]):
        assert label == index
        assert int(before[0]) == index
        assert int(after[0]) == index + 1000
        assert [int(row[0]) for row in inside] == list(range(INNER))
    assert found[0][0][2] != found[0][1][2]  # loops in different samples draw different random numbers


class OuterOfRaising(IndexDataset):
    """Reads a loader with a bad sample."""

    def __init__(self, length: int, transform: Any, inner: Any, bad: int) -> None:
        super().__init__(length, transform)
        self.inner, self.bad = inner, bad

    def __getitem__(self, index: int) -> Any:
        if index == self.bad:
            for _ in self.inner:
                pass
        return super().__getitem__(index)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_error_names_the_index_of_each_loop(server: DALIServer, num_workers: int) -> None:
    inner = DataLoader(server, RaisingDataset(8, server.proxy), batch_size=4)
    outer = DataLoader(server, OuterOfRaising(6, server.proxy, inner, bad=3), 2, num_workers=num_workers)
    iterator = iter(outer)
    assert check_affine(*next(iterator)) == [0, 1]
    error = error_of(iterator)
    assert isinstance(error, KeyError)
    text = "\n".join([str(error), *getattr(error, "__notes__", ())])
    assert "dataset index 3" in text
    assert f"dataset index {RaisingDataset.bad}" in text
    assert check_affine(*next(iterator)) == [4, 5]


@pytest.mark.parametrize("num_workers", [0, 1])
def test_batch_error_of_an_inner_loop_costs_the_outer_sample(server: DALIServer, num_workers: int) -> None:
    errors: list[BatchError] = []
    with DALIServer(decoded(), mode="thread") as decoder:
        inner = DataLoader(decoder, JpegDataset(16, decoder.proxy), sampler=[12, JpegDataset.bad], batch_size=2)
        outer = DataLoader(
            server,
            OuterOfRaising(16, server.proxy, inner, bad=14),
            sampler=[JpegDataset.bad, 14, 15],
            batch_size=3,
            num_workers=num_workers,
            on_error=errors.append,
        )
        assert [check_affine(*batch) for batch in outer] == [[JpegDataset.bad, 15]]
    assert [error.dataset_indices for error in errors] == [(14,)]


def test_bad_samples_of_an_inner_loop_are_left_out(server: DALIServer) -> None:
    inner = DataLoader(server, RaisingDataset(8, server.proxy), batch_size=4, on_error=lambda _: "skip")
    outer = DataLoader(server, Outer(2, server.proxy, inner), 2, num_workers=1)
    (row, _) = rows(outer)
    assert [value[0] for value in row[2]] == [affine_of(index) for index in range(8) if index != RaisingDataset.bad]


def test_workers_inside_a_worker_are_refused(server: DALIServer) -> None:
    inner = DataLoader(server, IndexDataset(INNER, server.proxy), 3, num_workers=1)
    outer = DataLoader(server, Outer(2, server.proxy, inner), 2, num_workers=1)
    with pytest.raises(ProxyError, match="Use num_workers=0 for a loop inside a worker"):
        next(iter(outer))


@pytest.mark.parametrize("num_workers", [0, 1])
def test_end_of_an_epoch_keeps_nothing_of_the_caller(server: DALIServer, num_workers: int) -> None:
    def first_batch() -> weakref.ref[torch.Tensor]:
        batches = list(DataLoader(server, IndexDataset(4, server.proxy), 2, num_workers=num_workers))
        return weakref.ref(batches[0][0])

    gc.disable()
    try:
        assert first_batch()() is None
    finally:
        gc.enable()


class OwnServer(IndexDataset):
    """Starts a server of its own, whose results a sample needs."""

    def __getitem__(self, index: int) -> Any:
        with DALIServer(affine(), mode="thread") as server:
            for images, indices in DataLoader(server, IndexDataset(INNER, server.proxy), batch_size=INNER):
                check_affine(images, indices)
        return super().__getitem__(index)


@pytest.mark.parametrize("of_server", [0, 1])
def test_dataset_in_a_worker_may_wait_for_results_of_its_own_server(of_server: int) -> None:
    with DALIServer(affine(), num_workers=of_server) as server:
        options: dict[str, Any] = {} if of_server else {"num_workers": 1}
        loader = DataLoader(server, OwnServer(24, server.proxy), batch_size=4, timeout=60, **options)
        seen = [index for images, indices in loader for index in check_affine(images, indices)]
    assert seen == [*range(24)]
