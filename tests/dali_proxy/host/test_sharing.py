"""Equal requests of several processes are computed once, and their results are right, whoever dies."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import pytest

from dali_proxy import DALIServer, DataLoader
from dali_proxy._host.sharing import Sharing
from dali_proxy._host.variant import Variant
from pipeline import fn, pipeline_def
from tests.dali_proxy.indexed import IndexDataset
from tests.waiting import PATIENCE_S, wait_until

SAMPLES, BATCH = 48, 4

Batches = list[tuple[list[Any], list[int]]]


@pipeline_def(num_threads=2, device_id=None, batch_size=BATCH, seed=5)
def noisy() -> Any:
    """Return the index and a random number."""
    return fn.external_source(name="x") * 1.0 + fn.random.uniform(range=(0.0, 0.5))


class Shifted(IndexDataset):
    """Has other samples from one index on."""

    begin = SAMPLES

    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index + 1000 * (index >= self.begin))


def loader_of(server: DALIServer, begin: int = SAMPLES, **options: Any) -> DataLoader:
    dataset = Shifted(SAMPLES, server.proxy, width=1 << 15)  # else the server's thread would compute the batches
    dataset.begin = begin
    return DataLoader(server, dataset, batch_size=BATCH, num_workers=0, **options)


def plain(loop: Any) -> Batches:
    return [(values[:, -1].tolist(), indices.tolist()) for values, indices in loop]


def expected(begin: int = SAMPLES) -> Batches:
    with DALIServer(noisy(), mode="thread") as server:
        return plain(loader_of(server, begin))


def rank(results: Connection, handle: bytes, begin: int) -> None:
    """Be a rank of a group: connect, then run an epoch after a message of the other end, which gets its batches."""
    server = pickle.loads(handle)
    _ = server.consumer
    results.send("connected")
    message, loop = results.recv(), iter(loader_of(server, begin))
    while message == "next":
        results.send(plain([next(loop)]))
        message = results.recv()
    results.send(plain(loop))
    results.poll(None)  # stay connected


@contextmanager
def group(server: DALIServer, count: int, begin: int = SAMPLES) -> Iterator[list[Any]]:
    """Yield the connections of processes that are connected to a server."""
    context = multiprocessing.get_context("forkserver")
    handle = pickle.dumps(server)
    members = []
    for _ in range(count):
        ours, theirs = context.Pipe()
        process = context.Process(target=rank, args=(theirs, handle, begin))
        process.start()
        theirs.close()
        ours.process = process  # type: ignore[attr-defined]
        members.append(ours)
    try:
        for each in members:
            assert each.recv() == "connected"
        yield members
    finally:
        for each in members:
            each.close()
            each.process.join()  # type: ignore[attr-defined]
            each.process.close()  # type: ignore[attr-defined]


def computed(server: DALIServer) -> int:
    """Return how many batches the operators have run."""
    return max(times.batches for times in server.stats().operators.values())


def test_equal_ranks_compute_each_batch_once() -> None:
    with DALIServer(noisy()) as server, group(server, 4) as members:
        for each in members:
            each.send("all")
        assert [each.recv() for each in members] == [expected()] * 4
        assert computed(server) == SAMPLES // BATCH
        assert server.stats().shared == 3 * SAMPLES // BATCH


def test_rank_that_comes_later_gets_results_that_were_kept() -> None:
    with DALIServer(noisy()) as server, group(server, 2) as (first, second):
        for each in (first, second):
            each.send("all")
            assert each.recv() == expected()
        assert computed(server) == SAMPLES // BATCH


def test_other_samples_of_the_same_batch_are_computed() -> None:
    with DALIServer(noisy()) as server, group(server, 1) as (first,), group(server, 1, begin=20) as (second,):
        for each in (first, second):
            each.send("all")
        assert (first.recv(), second.recv()) == (expected(), expected(begin=20))
        assert server.stats().shared == 20 // BATCH


def test_consumer_may_write_to_its_results() -> None:
    with DALIServer(noisy()) as server, group(server, 1) as (other,):
        found: Batches = []
        for values, indices in loader_of(server):
            found += plain([(values, indices)])
            values.zero_()
            other.send("next")
            assert other.recv() == found[-1:]
        other.send("all")
        assert other.recv() == []
        assert found == expected()


@pytest.mark.parametrize("victim", [0, 1])
def test_rank_that_dies_during_a_shared_batch_costs_the_others_nothing(
    victim: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, stage = threading.Event(), Variant.stage

    def wait_and_stage(variant: Variant, outputs: Any, key: Any) -> Any:
        if key.iteration == 2:
            gate.wait(PATIENCE_S)
        return stage(variant, outputs, key)

    monkeypatch.setattr(Variant, "stage", wait_and_stage)
    with DALIServer(noisy(), mode="thread") as server, group(server, 3) as members:
        try:
            for number, each in enumerate(members):
                each.send("all")
                wait_until(lambda: server.stats().running > 0)
                wait_until(lambda: server.stats().shared >= 2 * number)  # noqa: B023  # batches 0 and 1
                wait_until(lambda: server.stats().waiting_results > number)  # noqa: B023  # it needs batch 2, too
            os.kill(members[victim].process.pid, signal.SIGKILL)
            members[victim].process.join()
            wait_until(lambda: server.stats().consumers == 3)
        finally:
            gate.set()
        others = [each for each in members if each is not members[victim]]
        assert [each.recv() for each in others] == [expected()] * 2
        assert server.stats().errors == 0


def test_equal_loops_of_one_process_may_write_to_their_results() -> None:
    with DALIServer(noisy()) as server, group(server, 1):
        found: list[Batches] = [[], []]
        for loops in zip(loader_of(server), loader_of(server), strict=True):
            for number, (values, indices) in enumerate(loops):
                found[number] += plain([(values, indices)])
                values.zero_()
        assert found == [expected()] * 2
        assert server.stats().shared == SAMPLES // BATCH


def test_error_is_that_of_each_rank() -> None:
    @pipeline_def(num_threads=2, device_id=None, batch_size=BATCH, seed=5)
    def failing() -> Any:
        return fn.decoders.image(fn.external_source(name="x"), device="cpu")

    with DALIServer(failing()) as server, group(server, 2) as members:
        for each in members:
            each.send("all")
        for each in members:
            with pytest.raises(EOFError):  # it has ended with an error
                each.recv()
        assert server.stats().errors >= 2


def test_single_process_hashes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> bytes:
        raise AssertionError("nobody needs it")

    monkeypatch.setattr(Sharing, "_digest", refuse)
    with DALIServer(noisy(), mode="thread") as server:
        loops: list[Callable[[], Any]] = [lambda: plain(loader_of(server)) for _ in range(2)]
        assert [loop() for loop in loops] == [expected()] * 2
