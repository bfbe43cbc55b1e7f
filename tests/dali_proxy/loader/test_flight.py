"""Small batches go to workers in chunks, without changing their order, their worker or their data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data
from torch.utils.data import get_worker_info

from dali_proxy import DALIServer, DataLoader
from dali_proxy._loader.batches import CollatedBatch, Cost, NumberedIndices
from dali_proxy._loader.flight import Flight
from tests.dali_proxy.indexed import affine, affine_of

WORKERS = 2


class Owned(torch.utils.data.Dataset[Any]):
    """Returns the index, as data and as a label, and the worker that read it; a few indices fail."""

    def __init__(self, transform: Any, bad: frozenset[int] = frozenset(), values: int = 3) -> None:
        self.transform = transform
        self.bad = bad
        self.values = values

    def __len__(self) -> int:
        return 200

    def __getitem__(self, index: int) -> Any:
        if index in self.bad:
            raise ValueError(f"index {index} is bad")
        info = get_worker_info()
        return self.transform(np.full(self.values, index, np.float32)), index, -1 if info is None else info.id


@pytest.fixture
def server() -> Iterator[DALIServer]:
    with DALIServer(affine(), mode="thread") as running:
        yield running


def loader(server: DALIServer, dataset: Any = None, **options: Any) -> Any:
    return DataLoader(server, dataset or Owned(server.proxy), batch_size=2, num_workers=WORKERS, **options)


def in_chunks(iterator: Any) -> bool:
    return bool(iterator._loop.chunk > 1)


def check(batches: list[Any], begin: int = 0) -> None:
    for number, (data, indices, workers) in enumerate(batches, begin):
        assert indices.tolist() == [2 * number, 2 * number + 1]
        assert data[:, 0].tolist() == [affine_of(index) for index in indices.tolist()]
        assert set(workers.tolist()) == {(number - begin) % WORKERS}, "the worker that torch's loader would ask"


@pytest.mark.parametrize("persistent", [False, True])
def test_chunks_keep_order_and_workers(server: DALIServer, persistent: bool) -> None:
    ours = loader(server, persistent_workers=persistent)
    for _ in range(2):
        iterator = iter(ours)
        check(list(iterator))
        assert in_chunks(iterator)
    shown = server.stats().in_flight["loader"]
    assert shown.batches > 2 * WORKERS
    assert f"{ours.prefetch_factor * WORKERS}" not in shown.reason
    assert "prefetch_factor" in str(server.stats())


def test_failed_batches_of_a_chunk(server: DALIServer) -> None:
    bad = frozenset({81, 150})
    iterator = iter(loader(server, Owned(server.proxy, bad)))
    numbers = []
    for number in range(100):
        if {2 * number, 2 * number + 1} & bad:
            with pytest.raises(ValueError, match="is bad"):
                next(iterator)
            numbers.append(number)
        else:
            assert next(iterator)[1].tolist() == [2 * number, 2 * number + 1]
    assert numbers == [40, 75]
    assert in_chunks(iterator)


def test_loader_resumes_inside_a_chunk(server: DALIServer) -> None:
    ours = loader(server)
    iterator = iter(ours)
    for _ in range(43):
        next(iterator)
    assert in_chunks(iterator)
    again = loader(server)
    again.load_state_dict(ours.state_dict())
    check(list(again), begin=43)


class Failing(torch.utils.data.Sampler[int]):
    """Raises once, after 50 of 100 indices."""

    def __len__(self) -> int:
        return 100

    def __iter__(self) -> Iterator[int]:
        return self

    def __init__(self) -> None:
        self.position = 0
        self.failed = False

    def __next__(self) -> int:
        if self.position == 50 and not self.failed:
            self.failed = True
            raise RuntimeError("the sampler failed")
        if self.position == 100:
            raise StopIteration
        self.position += 1
        return self.position - 1


def test_sampler_that_fails_between_chunks(server: DALIServer) -> None:
    iterator = iter(DataLoader(server, Owned(server.proxy), sampler=Failing(), batch_size=None, num_workers=WORKERS))
    found: list[int] = []

    def take_rest() -> None:
        for _, index, _ in iterator:
            found.append(index)  # those before the error count

    with pytest.raises(RuntimeError, match="the sampler failed"):
        take_rest()
    take_rest()
    assert found == list(range(100))


def test_chunk_that_fills_the_shared_memory_is_submitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that waits for memory first sends the batches that it has collected."""
    monkeypatch.setattr("dali_proxy._loader.flight._NBYTES", 1 << 40)
    monkeypatch.setattr("dali_proxy._loader.flight._SECONDS", 100.0)
    with DALIServer(affine(), mode="thread", arena_bytes=1 << 16, arena_bytes_limit=1 << 16, timeout=30) as server:
        iterator = iter(loader(server, Owned(server.proxy, values=1500)))
        assert [index for _, indices, _ in iterator for index in indices.tolist()] == list(range(200))
        assert in_chunks(iterator)


def observe(
    flight: Flight, seconds: float = 1e-4, nbytes: int = 100, message: int = 100, size: int = 1, result: int = 100
) -> int:
    cost = Cost(seconds, nbytes, message)
    for _ in range(100):
        flight.observe(CollatedBatch(NumberedIndices(0, 0, [0] * size), None, None, cost), result)
    return flight.chunk


def test_bounds_of_chunks() -> None:
    assert observe(Flight(2, 2)) == 16
    assert observe(Flight(2, 2), seconds=0.01) == 5
    assert observe(Flight(2, 2), seconds=1.0) == 1
    assert observe(Flight(2, 2), message=1000) == 3
    assert observe(Flight(2, 2), size=256) == 4
    large = Flight(2, 2)
    assert observe(large, nbytes=4_000_000) == 4
    assert large.in_flight.batches == 16
    assert large.in_flight.reason.endswith("memory")
    assert large.restart() == 1
    assert observe(Flight(2, 2), result=8_000_000) == 2
    assert observe(Flight(2, 2), result=0) == 1, "its memory isn't known"


def test_more_are_in_flight_while_the_loop_waits_for_results(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1.0]
    monkeypatch.setattr("dali_proxy._loader.flight.time.monotonic", lambda: now[0])
    flight = Flight(14, 2)
    size = 11 << 20

    def loop(batches: int, waits: float) -> int:
        for _ in range(batches):
            now[0] += 0.001
            flight.note_wait(waits * 0.001)
        return observe(flight, result=size)

    assert loop(50, 0.0) == 1
    assert loop(50, 0.9) == 3
    assert loop(50, 0.02) == 3, "because of these"
    assert loop(50, 0.0) == 1


def test_chunks_grow_step_by_step() -> None:
    flight = Flight(2, 2)
    cost = Cost(1e-4, 100, 100)
    sizes = [flight.observe(CollatedBatch(NumberedIndices(0, 0, [0]), None, None, cost), 100) for _ in range(5)]
    assert sizes == [2, 4, 8, 16, 16]


def first_view_only(samples: Any) -> Any:
    return torch.utils.data.default_collate([(data, index) for data, index, _ in samples])


class TwoViews(Owned):
    """Requests a second output for each sample, in a batch that the collate function drops."""

    def __getitem__(self, index: int) -> Any:
        data, *_ = super().__getitem__(index)
        other, *_ = super().__getitem__(index)
        return data, index, other


def drop_second(samples: Any) -> Any:
    torch.utils.data.default_collate([other for _, _, other in samples])
    return first_view_only(samples)


def test_results_that_the_collate_function_drops_are_released(server: DALIServer) -> None:
    iterator = iter(loader(server, TwoViews(server.proxy), collate_fn=drop_second))
    for _ in range(90):
        next(iterator)
    wanted = iterator._results.depth + 1
    assert len(server.consumer._requests) <= 2 * wanted, "only those that are sent ahead"
