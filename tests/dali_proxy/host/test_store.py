"""What the host keeps, and for how long."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dali_proxy._host.requests import Request
from dali_proxy._host.store import Store
from dali_proxy._transport.failures import describe
from dali_proxy._transport.publisher import StagedResult
from pipeline._rng import BatchKey


def request(client: int, seq: int, session: int = 0, nbytes: int = 0) -> Request:
    """A request whose outputs have some bytes."""
    worker: Any = SimpleNamespace(client=client)
    output: Any = SimpleNamespace(nbytes=nbytes)
    return Request(worker, seq, session, BatchKey(), 1, (), staged=StagedResult([(output, None, None)]))


@pytest.fixture
def dropped() -> list[Request]:
    return []


@pytest.fixture
def store(dropped: list[Request]) -> Store:
    """A store that drops as the host does."""

    def drop(request: Request) -> None:
        dropped.append(request)
        made.remove(request)

    made = Store(100, drop)
    return made


def test_find_and_remove(store: Store) -> None:
    one, other = request(1, 0), request(2, 0)
    store.add(one)
    store.add(other)
    assert store.find(1, 0) is one
    assert store.find(2, 0) is other
    assert store.find(1, 1) is None
    store.remove(one)
    store.remove(one)
    assert store.find(1, 0) is None
    assert list(store) == [other]


def test_sessions(store: Store, dropped: list[Request]) -> None:
    mine = [request(1, seq, session=7) for seq in range(3)]
    other, none = request(2, 0, session=8), request(3, 0)
    for each in (*mine, other, none):
        store.add(each)
    store.remove(mine[1])
    store.close_session(7)
    assert set(dropped) == {mine[0], mine[2]}
    assert set(store) == {other, none}
    assert store.is_closed(7)
    assert not store.is_closed(8)
    assert not store.is_closed(0)


def test_unclaimed_results_are_bounded_oldest_first(store: Store, dropped: list[Request]) -> None:
    requests = [request(1, seq, nbytes=40) for seq in range(4)]
    for each in requests:
        store.add(each)
        store.leave_unclaimed(each)
        store.leave_unclaimed(each)  # counted once
    assert dropped == requests[:2]
    store.remove(requests[2])  # fetched
    large = request(2, 0, nbytes=1000)
    store.add(large)
    store.leave_unclaimed(large)
    assert dropped == [*requests[:2], requests[3]]  # one is kept, however large


def test_unclaimed_failures_and_empty_results_are_bounded(store: Store, dropped: list[Request]) -> None:
    failed = [request(1, seq) for seq in range(3)]
    for each in failed:
        each.failure = describe(ValueError("bad"), 1, each.seq, (), "worker 0", 1)
        each.staged = None
        store.add(each)
        store.leave_unclaimed(each)
    assert dropped == failed[:2]
    for seq in range(600):
        empty = request(2, seq)
        store.add(empty)
        store.leave_unclaimed(empty)
    assert len(store) == 512
