"""How long the host keeps requests."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dali_proxy._host.requests import Request, State, Store
from dali_proxy._transport.failures import describe
from dali_proxy._transport.publisher import StagedResult
from dali_proxy.pipeline._rng import BatchKey


def request(client: int, seq: int, session: int = 0, nbytes: int = 0, batch: int = 0) -> Request:
    """Return a request whose outputs have `nbytes`."""
    worker: Any = SimpleNamespace(client=client)
    output: Any = SimpleNamespace(nbytes=nbytes)
    return Request(worker, None, seq, session, BatchKey(0, batch), 1, (), staged=StagedResult([(output, None, None)]))


@pytest.fixture
def store() -> Store:
    return Store(100)


def test_results_are_found_and_removed(store: Store) -> None:
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


def test_sessions(store: Store) -> None:
    mine = [request(1, seq, session=7) for seq in range(3)]
    other, none = request(2, 0, session=8), request(3, 0)
    for each in (*mine, other, none):
        store.add(each)
    store.remove(mine[1])
    assert set(store.close_session(7)) == {mine[0], mine[2]}
    assert set(store) == {other, none}
    assert 7 in store.closed_sessions
    assert 8 not in store.closed_sessions
    assert 0 not in store.closed_sessions


def test_finished_requests_of_a_session_up_to_a_batch(store: Store) -> None:
    batches = [request(1, seq, session=7, batch=batch) for seq, batch in enumerate((3, 1, 2, 0))]
    for each in (*batches, request(2, 0, session=8)):
        each.state = State.DONE
        store.add(each)
    batches[3].state = State.RUNNING
    assert store.done_in(7, 2) == [batches[1], batches[2]]
    assert store.done_in(9, 2) == []


def test_unclaimed_results_are_bounded_oldest_first(store: Store) -> None:
    requests = [request(1, seq, nbytes=40) for seq in range(4)]
    dropped = []
    for each in requests:
        store.add(each)
        dropped += store.add_unclaimed(each)
        dropped += store.add_unclaimed(each)  # counted once
    assert dropped == requests[:2]
    store.remove(requests[2])  # fetched
    large = request(2, 0, nbytes=1000)
    store.add(large)
    assert store.add_unclaimed(large) == [requests[3]]  # the store keeps one, however large
    assert list(store) == [large]


def test_clear_removes_all(store: Store) -> None:
    requests = [request(1, 0, session=7), request(1, 1, nbytes=40)]
    for each in requests:
        store.add(each)
    store.add_unclaimed(requests[1])
    assert store.clear() == requests
    assert len(store) == 0
    assert store.close_session(7) == []


def test_unclaimed_failures_and_empty_results_are_bounded(store: Store) -> None:
    failed = [request(1, seq) for seq in range(3)]
    dropped = []
    for each in failed:
        each.failure = describe(ValueError("bad"), 1, each.seq, (), "worker 0", 1)
        each.staged = None
        store.add(each)
        dropped += store.add_unclaimed(each)
    assert dropped == failed[:2]
    for seq in range(600):
        empty = request(2, seq)
        store.add(empty)
        store.add_unclaimed(empty)
    assert len(store) == 512
