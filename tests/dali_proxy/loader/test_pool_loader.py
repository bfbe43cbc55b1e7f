"""The order in which a loader requests batches, beside dataset workers whose time is simulated."""

from __future__ import annotations

import os
import random
from collections import deque
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from dali_proxy._host.dispatcher import Dispatcher
from dali_proxy._loader.batches import CollatedBatch, Cost
from dali_proxy._loader.collate import Collate
from dali_proxy._loader.numbered_datasets import NumberedDataset, NumberedSampler
from dali_proxy._loader.own_worker import OwnWorker
from dali_proxy._loader.pool_loader import PoolLoader
from dali_proxy._loader.sample_costs import SampleCosts
from dali_proxy._transport.protocol import BatchRead, ReadBatch

SLOW, SHARE = 10.0, 0.05


class Worker:
    """Reads a batch after another one, in simulated time."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.tasks: dict[int, Any] = {}
        self.queue: deque[int] = deque()
        self.ends = 0.0

    def send(self, message: ReadBatch, fds: Any) -> None:
        self.queue.append(message.number)
        if len(self.queue) == 1:
            self.begin()

    def begin(self) -> None:
        request = self.pool.requests[self.tasks[self.queue[0]].message.number]
        self.pool.begun.append(request.request.numbered.batch)
        self.ends = self.pool.now + self.pool.seconds_of(request)


@dataclass(eq=False)
class Pending:
    """A batch that was requested."""

    request: Any
    done: bool = False
    nbytes: int = 1

    def drop(self) -> None:
        pass

    def result(self) -> Any:
        return self.batch

    batch: Any = None


@dataclass(eq=False)
class Pool:
    """Stands for the workers of a server; the real dispatcher deals the batches."""

    count: int
    costs: list[float]
    in_flight_bytes: int = 1 << 30
    name: str = "workers"
    member: str = "worker"
    now: float = 0.0
    requests: dict[int, Pending] = field(default_factory=dict)
    begun: list[int] = field(default_factory=list)  # numbers of the batches that workers have begun
    most: int = 0  # batches in flight

    def __post_init__(self) -> None:
        self.dispatcher = Dispatcher()
        self.workers = [Worker(self) for _ in range(self.count)]
        for worker in self.workers:
            self.dispatcher.add(cast("Any", worker))
        self.sessions = {1}
        self.send = self.receive

    @property
    def ready(self) -> int:
        return self.count

    def divide(self) -> None:
        pass

    def put(self, data: bytes) -> Any:
        return None

    def seconds_of(self, pending: Pending) -> float:
        indices: list[int] = pending.request.numbered.indices
        return sum(self.costs[index] for index in indices)

    def request(self, request: Any) -> Pending:
        number = len(self.requests)
        self.requests[number] = pending = Pending(request)
        message = ReadBatch(number=number, session=1, request=b"", reader_nbytes=0, slow=request.slow)
        self.dispatcher.read(cast("Any", self), message, (os.open(os.devnull, os.O_RDONLY),))
        return pending

    def receive(self, message: BatchRead, fds: Any = ()) -> None:
        pending = self.requests[message.number]
        numbered = pending.request.numbered
        samples = np.array([self.costs[index] for index in numbered.indices], np.float32).tobytes()
        pending.batch = CollatedBatch(numbered, None, None, Cost(self.seconds_of(pending), 0, 0, samples=samples))
        pending.done = True

    def handle(self) -> None:
        pass

    def wait(self) -> None:
        worker = min((each for each in self.workers if each.queue), key=lambda each: each.ends)
        self.now = worker.ends
        number = worker.queue.popleft()
        if worker.queue:
            worker.begin()
        self.dispatcher.finish(cast("Any", worker), BatchRead(number=number), ())


def loader_of(pool: Pool, batches: list[list[int]], costs: SampleCosts, **options: Any) -> PoolLoader:
    server: Any = SimpleNamespace(
        num_workers=pool.count, pool=pool, endpoint=SimpleNamespace(timeout=None), cluster=None
    )
    own = OwnWorker()
    dataset = NumberedDataset([0] * len(pool.costs), 1, own)
    return PoolLoader(
        server, dataset, costs, batch_sampler=NumberedSampler(batches), collate_fn=Collate(list, own), **options
    )


def epoch_of(pool: Pool, batches: list[list[int]], costs: SampleCosts, **options: Any) -> tuple[float, list[int]]:
    """Return the time that a loop needs for an epoch, and the batches that it gets."""
    loader = loader_of(pool, batches, costs, **options)
    pool.begun.clear()
    begin, taken = pool.now, []
    for batch in loader:
        taken.append(batch.numbered.batch)
        in_flight = sum(not pending.done for pending in pool.requests.values())
        pool.most = max(pool.most, in_flight)
    return pool.now - begin, taken


def shuffled(samples: int, batch_size: int, seed: int) -> list[list[int]]:
    indices = random.Random(seed).sample(range(samples), samples)
    return [indices[first : first + batch_size] for first in range(0, samples, batch_size)]


def costs_of(samples: int) -> list[float]:
    generator = random.Random(1)
    return [SLOW if generator.random() < SHARE else 1.0 for _ in range(samples)]


@pytest.mark.parametrize(("batch_size", "workers"), [(1, 2), (1, 8), (4, 4), (16, 2)])
def test_slow_samples_hold_up_no_other_batch(batch_size: int, workers: int) -> None:
    samples = 100 * workers * batch_size
    each = costs_of(samples)
    pool, costs = Pool(workers, each), SampleCosts()
    ideal = sum(each) / workers
    for epoch in range(3):
        seconds, taken = epoch_of(pool, shuffled(samples, batch_size, epoch), costs)
        assert taken == [*range(samples // batch_size)]
        assert ideal / seconds >= (0.98 if epoch else 0.9)


def test_batch_of_a_slow_sample_begins_before_its_turn_in_later_epochs() -> None:
    each = [1.0] * 40
    each[30] = SLOW
    pool, costs = Pool(2, each), SampleCosts()
    batches = [[index] for index in range(40)]
    epoch_of(pool, batches, costs)
    assert pool.begun.index(30) >= 28
    assert len(costs) == 1
    seconds, taken = epoch_of(pool, batches, costs)
    assert taken == [*range(40)]
    assert pool.begun.index(30) < 16, "it takes as long as 18 other batches of two workers"
    assert seconds <= sum(each) / 2 + 1
    each[30] = 1.0
    epoch_of(pool, batches, costs)
    assert len(costs) == 0
    epoch_of(pool, batches, costs)
    assert pool.begun.index(30) >= 28


def test_slow_samples_keep_to_the_memory() -> None:
    each = costs_of(200)
    pool, costs = Pool(2, each, in_flight_bytes=4), SampleCosts()
    for epoch in range(3):
        _, taken = epoch_of(pool, shuffled(200, 1, epoch), costs)
        assert taken == [*range(200)]
    assert pool.most <= 5, "four, and the one that the loop waits for"


def test_number_of_batches_in_flight_that_is_given_stays() -> None:
    each = costs_of(200)
    pool, costs = Pool(2, each), SampleCosts()
    for epoch in range(2):
        _, taken = epoch_of(pool, shuffled(200, 1, epoch), costs, prefetch_factor=2)
        assert taken == [*range(200)]
    assert pool.most <= 5


def test_loop_without_order_gets_batches_as_they_come() -> None:
    each = [1.0] * 40
    each[0] = SLOW
    pool, costs = Pool(2, each), SampleCosts()
    for _ in range(2):
        seconds, taken = epoch_of(pool, [[index] for index in range(40)], costs, in_order=False)
        assert sorted(taken) == [*range(40)]
        assert taken.index(0) == 9, "when the other worker has read nine"
        assert pool.begun[0] == 0
        assert seconds <= sum(each) / 2 + 1


@pytest.mark.parametrize(("waited", "expected"), [(0.5, 6), (0.05, 3)])
def test_more_batches_are_in_flight_while_the_loop_waits_for_results(
    monkeypatch: pytest.MonkeyPatch, waited: float, expected: int
) -> None:
    now = [0.0]
    monkeypatch.setattr("dali_proxy._loader.pool_loader.time.monotonic", lambda: now[0])
    pool = Pool(1, [1.0] * 20)
    loader = loader_of(pool, [[index] for index in range(20)], SampleCosts())
    found = 0
    for _ in loader:
        now[0] += 1
        loader.note_wait(waited)
        found = max(found, loader.in_flight.batches)
    assert found == expected


def test_batches_in_flight_that_a_loop_does_not_need_any_more_are_given_up() -> None:
    pool = Pool(1, [1.0] * 4)
    loader = loader_of(pool, [[index] for index in range(4)], SampleCosts())
    list(loader)
    for _ in range(5):
        loader.allow_more()
    before = loader.in_flight.batches
    found = []
    for _ in range(1000):
        loader.note_wait(0.0)
        found.append(loader.in_flight.batches)
    assert found == sorted(found, reverse=True)
    assert found[before * 7] == before > found[-1] == 3
