"""The order in which requests go to the executor."""

from __future__ import annotations

import os
import socket
from collections.abc import Collection, Iterator

import pytest

from dali_proxy._host.clients import Worker
from dali_proxy._host.requests import Request, State
from dali_proxy._host.scheduler import Scheduler
from dali_proxy._transport.protocol import CODEC
from dali_proxy.pipeline._ipc.channel import Channel
from dali_proxy.pipeline._rng import BatchKey


@pytest.fixture
def workers() -> Iterator[list[Worker]]:
    """Return three workers whose connections have no peer process."""
    pairs = [socket.socketpair() for _ in range(3)]
    connected = [
        Worker(Channel(ours, CODEC, peer_pid=os.getpid()), number, f"worker {number}")
        for number, (ours, _) in enumerate(pairs)
    ]
    yield connected
    for worker, (_, theirs) in zip(connected, pairs, strict=True):
        worker.disconnect()
        worker.channel.close()
        theirs.close()


def request(worker: Worker, seq: int, session: int = 0, batch: int = 0) -> Request:
    return Request(worker, None, seq, session, BatchKey(iteration=batch), size=1, labels="")


def take_all(scheduler: Scheduler) -> list[Request]:
    """Return the requests that the executor gets now."""
    return list(iter(scheduler.take, None))


def test_workers_take_turns_and_stay_in_order(workers: list[Worker]) -> None:
    scheduler = Scheduler(1)
    started: list[Request] = []
    for worker, count in zip(workers, (4, 1, 2), strict=True):
        for seq in range(count):
            scheduler.add(request(worker, seq))
            started += take_all(scheduler)
    assert (scheduler.running, scheduler.queued) == (1, 6)
    for _ in range(7):
        scheduler.finish()
        started += take_all(scheduler)
    order = [(each.worker.client, each.seq) for each in started]
    assert order == [(0, 0), (0, 1), (1, 0), (2, 0), (0, 2), (2, 1), (0, 3)]
    assert (scheduler.running, scheduler.queued) == (0, 0)


def test_batches_of_an_iterator_run_in_its_order(workers: list[Worker]) -> None:
    """The loop waits for the first one, so others gain nothing by running before it."""
    scheduler = Scheduler(1)
    for worker, batches in zip(workers, ((0, 1, 6), (2, 3, 7), (4, 5)), strict=True):
        for seq, batch in enumerate(batches):
            scheduler.add(request(worker, seq, session=1, batch=batch))
    scheduler.add(request(workers[0], 3, session=2, batch=90))
    scheduler.add(request(workers[1], 3, session=2, batch=80))
    started: list[Request] = []
    for _ in range(10):
        started += take_all(scheduler)
        scheduler.finish()
    assert [each.key.iteration for each in started if each.session == 1] == list(range(8))
    assert [each.key.iteration for each in started[:4]] == [0, 80, 1, 90], "iterators take turns"


def test_depth_limits_requests_that_run(workers: list[Worker]) -> None:
    scheduler = Scheduler(3)
    for seq in range(5):
        scheduler.add(request(workers[0], seq))
    started = take_all(scheduler)
    assert [each.seq for each in started] == [0, 1, 2]
    assert all(each.state is State.RUNNING for each in started)
    scheduler.finish()
    assert [each.seq for each in take_all(scheduler)] == [3]


def test_dropped_requests_do_not_run(workers: list[Worker]) -> None:
    scheduler = Scheduler(1)
    requests = [request(workers[0], seq) for seq in range(4)]
    for each in requests:
        scheduler.add(each)
    started = take_all(scheduler)
    for each in (requests[1], requests[3]):
        scheduler.drop(each)
    for _ in range(2):
        scheduler.finish()
        started += take_all(scheduler)
    assert started == [requests[0], requests[2]]
    assert scheduler.queued == 0


def test_held_requests_do_not_wait_for_the_executor(workers: list[Worker]) -> None:
    scheduler = Scheduler(4)
    for session in (1, 2):
        for seq in range(2):
            scheduler.add(request(workers[session], seq, session, batch=seq))
    seen: list[int] = []

    def is_held(first: Request, requests: Collection[Request]) -> bool:
        assert first is min(requests, key=lambda each: each.seq)
        seen.append(len(requests))
        return first.session == 1 or first.seq == 1

    started = scheduler.take(is_held)
    assert started is not None
    assert (started.session, started.seq) == (2, 0)
    assert seen == [2, 2]
    assert scheduler.take(is_held) is None
    assert (scheduler.queued, scheduler.waits(is_held), scheduler.waits()) == (3, False, True)
    assert [(each.session, each.seq) for each in take_all(scheduler)] == [(1, 0), (2, 1), (1, 1)]
    assert not scheduler.waits()


def test_occupancy(workers: list[Worker]) -> None:
    scheduler = Scheduler(2)
    scheduler.measure()
    assert scheduler.busy_seconds == scheduler.occupancy_seconds == 0
    scheduler.add(request(workers[0], 0))
    scheduler.add(request(workers[0], 1))
    take_all(scheduler)
    scheduler.measure()
    assert 0 < scheduler.busy_seconds < scheduler.occupancy_seconds
