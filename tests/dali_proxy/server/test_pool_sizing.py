"""The number of dataset workers, which the measurements of a loop change."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from dali_proxy import DALIServer, DataLoader
from dali_proxy._common import memory_budget
from dali_proxy._common.core_budget import Shares
from dali_proxy._server import pool_sizing
from dali_proxy._server.pool_sizing import PoolSizing
from dali_proxy._server.telemetry import LoopTimes
from dali_proxy.pipeline._executor.available_memory import available_memory
from pipeline import dynamic, types
from tests.dali_proxy.indexed import IndexDataset, noisy
from tests.waiting import PATIENCE_S, wait_until

ENDLESS = 1 << 30


class WaitingDataset(IndexDataset):
    """Waits for a moment, as for a disk."""

    def __getitem__(self, index: int) -> Any:
        time.sleep(0.02)  # much longer than it waits for a core on a busy machine
        return super().__getitem__(index)


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_sizing, "_SHORTEST", 0.1)
    monkeypatch.setattr(pool_sizing, "_SETTLE", 0.05)


def test_loop_that_waits_gets_workers_and_its_reports_say_why(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "dali_proxy"), DALIServer(noisy(), num_workers="auto") as server:
        indices = []
        deadline = time.monotonic() + PATIENCE_S
        for _, found in DataLoader(server, WaitingDataset(ENDLESS, server.proxy), batch_size=4):
            indices += found.tolist()
            if server.loop_times.num_workers > 1:
                break
            assert time.monotonic() < deadline
        stats = server.stats()
        assert indices == [*range(len(indices))]
        assert "samples" in stats.num_workers_reason or "instead of" in stats.num_workers_reason
        assert f"workers     {stats.num_workers} now: " in str(stats)
    first = next(message for message in caplog.messages if message.startswith("num_workers: "))
    assert "instead of 0: the loop waits" in first
    assert "waits for a disk or a network" in first


def test_end_of_the_process_that_starts_workers_leaves_reading_to_the_loop(caplog: pytest.LogCaptureFixture) -> None:
    with DALIServer(noisy(), num_workers="auto") as server:
        loop = iter(DataLoader(server, WaitingDataset(ENDLESS, server.proxy), batch_size=4))
        while server._life.dataset_workers is None:
            next(loop)
        pool = server._life.dataset_workers
        os.kill(pool._process.pid, signal.SIGKILL)
        wait_until(lambda: bool(pool.ended))
        while "was killed" not in server.stats().num_workers_reason:
            next(loop)
        assert next(loop)[1].tolist()
    assert any("the process that starts dataset workers was killed" in message for message in caplog.messages)


def noisy_values(x: Any) -> Any:
    return dynamic.cast(x, dtype=types.FLOAT) + dynamic.random.uniform(range=(0.0, 1.0))


def test_threads_end_that_the_training_leaves_idle_and_the_bits_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dali_proxy._server.pool_sizing.Shares.of_rank", lambda: Shares(4))
    batches: dict[str, list[Any]] = {}
    kinds: dict[str, dict[str, Any]] = {"fixed": {"num_threads": 4, "num_workers": 0}, "auto": {"num_workers": "auto"}}
    for kind, options in kinds.items():
        with DALIServer(noisy_values, batch_size=4, seed=7, **options) as server:
            begin, found = server.stats().threads, []
            deadline = time.monotonic() + PATIENCE_S
            for values, _ in DataLoader(server, IndexDataset(ENDLESS, server.proxy), batch_size=4):
                found.append(values)
                time.sleep(0.005)  # the training
                stats = server.stats() if kind == "auto" else None
                if stats is not None and stats.threads < begin:
                    assert "instead of" in stats.num_threads_reason or "results" in stats.num_threads_reason
                    break
                if kind == "fixed" and len(found) >= 400:
                    assert server.stats().threads == 4
                    break
                assert time.monotonic() < deadline
            batches[kind] = found
    for fixed, auto in zip(batches["fixed"], batches["auto"], strict=False):
        assert torch.equal(fixed, auto)


class Loader:
    """Stands for a loader."""


def test_loaders_have_separate_numbers_of_workers() -> None:
    now = [0.0]
    times = LoopTimes()
    pool = SimpleNamespace(ended="", largest_worker=lambda: 1 << 20)
    life = SimpleNamespace(dataset_workers=None)
    life.start_dataset_workers = lambda modules: setattr(life, "dataset_workers", pool)
    consumer = SimpleNamespace(dataset_workers=0)
    idle = {
        "observed": 0.0,
        "cores_idle": 0.0,
        "cores_other": 0.0,
        "cores": 2,
        "operators": {},
        "memory": 0,
        "others": {},
    }
    consumer.statistics = lambda: idle
    consumer.resize_pool = lambda count: setattr(consumer, "dataset_workers", count)
    sizing = PoolSizing(times, cast("Any", life), lambda: cast("Any", consumer), 0, lambda: now[0])

    def run(loader: Loader, seconds: float, wait: float) -> None:
        end = now[0] + seconds
        while now[0] < end:
            now[0] += 0.01 + wait / max(consumer.dataset_workers, 1)
            times.training += 0.01
            times.worker_wait += wait / max(consumer.dataset_workers, 1)
            times.reading += wait
            times.processor += wait / 100
            times.loop_batches += 1
            sizing.take(loader, "")

    training, evaluation = Loader(), Loader()
    run(evaluation, 20, 0.0)
    assert life.dataset_workers is None, "no process starts before a loop needs a worker"
    now[0] += 2
    run(training, 20, 0.05)
    assert consumer.dataset_workers > 2
    chosen = consumer.dataset_workers
    run(evaluation, 20, 0.0)
    assert consumer.dataset_workers == 0
    run(training, 1.5, 0.05)
    assert consumer.dataset_workers == chosen
    sizing.take(evaluation, "its own reason")
    assert times.num_workers_reason == "its own reason"


MB = 1 << 20


class Group:
    """The files of a control group."""

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder, self.others = folder, 0
        (folder / "memory.max").write_text(str(limit))
        self.use(0)

    def use(self, nbytes: int) -> None:
        (self.folder / "memory.current").write_text(str(self.others + nbytes))


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Group:
    """A control group with 1,000 MiB, of which the controller leaves 512 MiB free, and a machine with 16 cores."""
    monkeypatch.setattr(memory_budget, "available_memory", lambda: available_memory(tmp_path))
    monkeypatch.setattr("dali_proxy._server.pool_sizing.Shares.of_rank", lambda: Shares(16))
    return Group(tmp_path, 1000 * MB)


class Loop:
    """A loop that waits for samples and results, for as long as so many workers and threads need.

    Args:
        group: the control group.
        samples: seconds that a batch takes to read.
        results: seconds that it takes to compute.
        worker: bytes of a worker.
        thread: bytes of a thread.
    """

    def __init__(self, group: Group, samples: float, results: float, worker: int = 0, thread: int = 0) -> None:
        self.now, self.threads, self.counts = 0.0, 1, set[tuple[int, int]]()
        self.times = LoopTimes()
        self._group, self._worker, self._thread = group, worker, thread
        self._samples, self._results, self._computed = samples, results, 0.0
        self._workers = 0
        #: Counters of a loop of another process, and what a batch takes there: training, samples.
        self.other = dict.fromkeys(
            ("loop_batches", "training", "worker_wait", "result_wait", "reading", "processor"), 0.0
        )
        self.takes_there = 0.0, 0.0
        life = SimpleNamespace(dataset_workers=SimpleNamespace(ended="", largest_worker=lambda: worker))
        self.sizing = PoolSizing(self.times, cast("Any", life), lambda: cast("Any", self), 1, lambda: self.now)

    @property
    def dataset_workers(self) -> int:
        return self._workers

    def statistics(self) -> dict[str, Any]:
        operator = {"device": "cpu", "wall": self._computed, "seconds": self._computed}
        known = {"observed": self.now, "cores_idle": 8 * self.now, "cores_other": 0.0, "cores": 16}
        return {
            **known,
            "operators": {"fn.rotate": operator},
            "memory": self._thread * self.threads,
            "others": {"7": dict(self.other)},
        }

    def resize_pool(self, count: int) -> None:
        self._workers = count
        self._resized()

    def resize_threads(self, count: int) -> None:
        self.threads = count
        self._resized()

    def _resized(self) -> None:
        self.counts.add((self._workers, self.threads))
        self._group.use(self._worker * self._workers + self._thread * self.threads)

    def run(self, seconds: float) -> None:
        loader, end = Loader(), self.now + seconds
        while self.now < end:
            samples, results = self._samples / max(self._workers, 1), self._results / self.threads
            self.now += 0.01 + samples + results
            self.times.training += 0.01
            self.times.worker_wait += samples
            self.times.result_wait += results
            self.times.reading += self._samples
            self._computed += self._results
            self.times.loop_batches += 1
            self._run_other(0.01 + samples + results)
            self.sizing.take(loader, "")

    def _run_other(self, seconds: float) -> None:
        training, samples = self.takes_there
        wait = samples / max(self._workers, 1)
        if training + wait:
            batches = seconds / (training + wait)
            for name, each in {
                "training": training,
                "worker_wait": wait,
                "reading": samples,
                "loop_batches": 1.0,
            }.items():
                self.other[name] += batches * each


def test_no_worker_starts_that_the_control_group_has_no_memory_for(group: Group) -> None:
    loop = Loop(group, samples=0.2, results=0.0, worker=110 * MB)
    loop.run(60)
    assert max(workers for workers, _ in loop.counts) == 4  # of 488 MiB
    assert loop.dataset_workers == 4
    assert "memory allows no more than 4 of 115 MB" in loop.times.num_workers_reason
    group.others = 300 * MB  # of other processes
    group.use(4 * 110 * MB)
    loop.run(10)
    assert loop.dataset_workers == 1


def test_no_thread_starts_that_the_control_group_has_no_memory_for(group: Group) -> None:
    loop = Loop(group, samples=0.0, results=0.2, thread=100 * MB)
    loop.run(60)
    assert max(threads for _, threads in loop.counts) == 4  # 64 MiB are assumed until one was measured
    assert "memory allows no more than 4 of 105 MB" in loop.times.num_threads_reason
    group.others = 900 * MB
    group.use(400 * MB)
    loop.run(10)
    assert loop.threads == 4, "a thread that ends frees little"
    group.folder.joinpath("memory.max").write_text("max")
    loop.run(60)
    assert loop.threads > 4


def test_threads_at_the_start_fit_into_the_control_group(group: Group) -> None:
    assert DALIServer(noisy_values, batch_size=4, num_workers="auto").pipeline.num_threads == 7  # in 488 MiB
    group.use(990 * MB)
    assert DALIServer(noisy_values, batch_size=4, num_workers="auto").pipeline.num_threads == 1
    assert DALIServer(noisy_values, batch_size=4, num_workers="auto", num_threads=5).pipeline.num_threads == 5


def test_loops_of_other_processes_get_workers(group: Group) -> None:
    loop = Loop(group, samples=0.0, results=0.0, worker=10 * MB)
    loop.run(20)
    assert loop.dataset_workers == 0, "this loop needs none"
    loop.takes_there = 0.01, 0.1
    loop.run(60)
    assert loop.dataset_workers >= 8
    assert "times as many batches" in loop.times.num_workers_reason or "waits" in loop.times.num_workers_reason
    loop.takes_there = 0.0, 0.0  # it has ended
    loop.run(120)
    assert loop.dataset_workers == 0


def take_batches(server: DALIServer, until: Any, counted: Any) -> None:
    """Take batches in another process until the event is set."""
    for number, _ in enumerate(DataLoader(server, WaitingDataset(ENDLESS, server.proxy), batch_size=4), 1):
        counted.value = number
        if until.is_set():
            break


def test_loops_of_two_processes_know_each_other_and_neither_starves() -> None:
    spawn = multiprocessing.get_context("spawn")
    done, counted = spawn.Event(), spawn.Value("q", 0)
    with DALIServer(noisy(), num_workers="auto") as server:
        other = spawn.Process(target=take_batches, args=(server, done, counted))
        other.start()
        try:
            deadline = time.monotonic() + PATIENCE_S
            enough = 20
            for taken, _ in enumerate(DataLoader(server, IndexDataset(ENDLESS, server.proxy), batch_size=4)):
                loops = server.consumer.statistics()["others"].get(str(other.pid), {})
                if loops.get("loop_batches", 0) > enough and taken > enough and counted.value > enough:
                    break
                assert time.monotonic() < deadline, (taken, counted.value, loops)
            assert loops["reading"] > 0.005 * 4 * enough
            assert loops["worker_wait"] > 0
        finally:
            done.set()
            other.join(PATIENCE_S)
            other.kill()
            other.join()
        assert other.exitcode == 0
