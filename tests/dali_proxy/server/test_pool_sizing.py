"""The number of dataset workers, which the measurements of a loop change."""

from __future__ import annotations

import logging
import os
import signal
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from dali_proxy import DALIServer, DataLoader
from dali_proxy._common.core_budget import Shares
from dali_proxy._server import pool_sizing
from dali_proxy._server.pool_sizing import PoolSizing
from dali_proxy._server.telemetry import LoopTimes
from pipeline import dynamic, types
from tests.dali_proxy.indexed import IndexDataset, noisy
from tests.waiting import PATIENCE_S, wait_until

ENDLESS = 1 << 30


class WaitingDataset(IndexDataset):
    """Waits for a moment, as for a disk."""

    def __getitem__(self, index: int) -> Any:
        time.sleep(0.005)
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


def test_each_loader_has_its_own_number_of_workers() -> None:
    now = [0.0]
    times = LoopTimes()
    pool = SimpleNamespace(ended="", largest_worker=lambda: 1 << 20)
    life = SimpleNamespace(dataset_workers=None)
    life.start_dataset_workers = lambda modules: setattr(life, "dataset_workers", pool)
    consumer = SimpleNamespace(dataset_workers=0)
    idle = {"observed": 0.0, "cores_idle": 0.0, "cores_other": 0.0, "cores": 2, "operators": {}}
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
