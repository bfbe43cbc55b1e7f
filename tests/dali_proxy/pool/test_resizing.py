"""A pool of dataset workers whose size changes while loops run."""

from __future__ import annotations

import hashlib
import logging
import os
import random
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch

from dali_proxy import DALIServer, DataLoader, serve
from dali_proxy._server.pool_sizing import PoolSizing
from tests.dali_proxy.indexed import IndexDataset, IndexStream, noisy
from tests.waiting import wait_until

SAMPLES, BATCH = 400, 4
BLOCKED = 6 * BATCH  # index of a sample in a batch that a worker reads ahead

Decisions = list[Callable[[int], None]]


class DrawingDataset(IndexDataset):
    """Draws from the global generators."""

    def __getitem__(self, index: int) -> Any:
        drawn = torch.tensor([random.random(), np.random.random(), torch.rand(()).item()])
        return (*super().__getitem__(index), drawn)


class BlockedDataset(IndexDataset):
    """Leaves its process ID in a folder at one index, and waits there until a file exists; counts its reads."""

    def __init__(self, length: int, transform: Any, folder: Path) -> None:
        super().__init__(length, transform)
        self.folder = folder

    def __getitem__(self, index: int) -> Any:
        with (self.folder / "reads").open("ab") as file:
            file.write(b".")
        if index == BLOCKED:
            (self.folder / f"pid-{os.getpid()}").touch()
            wait_until((self.folder / "go").exists)
        return super().__getitem__(index)


class LockedDataset(IndexDataset):
    """Can't be pickled."""

    def __init__(self, length: int, transform: Any) -> None:
        super().__init__(length, transform)
        self.lock = threading.Lock()


class PidDataset(IndexDataset):
    """Returns the process that reads."""

    def __getitem__(self, index: int) -> Any:
        return (*super().__getitem__(index), os.getpid())


class Settings(dict[str, Any]):
    """The usual way to read a dictionary by attributes, which raises a KeyError for those that it doesn't have."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


class DatasetWithSettings(IndexDataset):
    def __init__(self, length: int, transform: Any) -> None:
        super().__init__(length, transform)
        self.settings = Settings(width=3)


@pytest.fixture(autouse=True)
def decisions(monkeypatch: pytest.MonkeyPatch) -> Decisions:
    """Let the test decide instead of the measurements. Return a list that gets the function for each server."""
    found: Decisions = []
    known: list[PoolSizing] = []

    def take(self: PoolSizing, loader: object, stays: str, modules: Any) -> None:
        if stays:
            self._times.num_workers_reason = stays
        elif self not in known:
            known.append(self)
            names = modules()

            def decide(count: int) -> None:
                if self._life.dataset_workers is None:
                    self._life.start_dataset_workers(names)
                self._consumer().resize_pool(count)

            found.append(decide)

    monkeypatch.setattr(PoolSizing, "take", take)
    return found


class Epoch:
    """An epoch whose number of workers the test sets."""

    def __init__(self, server: DALIServer, dataset: Any, decisions: Decisions, **options: Any) -> None:
        torch.manual_seed(7)
        self.server, self.decisions = server, decisions
        self.loader = DataLoader(server, dataset, batch_size=BATCH, **{"shuffle": True, **options})
        self.batches = iter(self.loader)
        self.digest = hashlib.sha1()
        self.indices: list[int] = []
        self.last: Any = None

    def run(self, batches: int = SAMPLES) -> Epoch:
        for _ in range(batches):
            self.last = next(self.batches, None)
            if self.last is None:
                break
            for part in self.last:
                self.digest.update(part.numpy().tobytes())
            self.indices += self.last[1].tolist()
        return self

    def resize(self, count: int) -> Epoch:
        """Change the number of workers, and wait until they run."""
        self.decisions[-1](count)
        consumer: Any = self.server.consumer

        def has_changed() -> bool:
            consumer.receive(0.01)
            return bool(consumer.dataset_workers == count)

        wait_until(has_changed, f"{count} workers")
        return self


def fixed(num_workers: int) -> str:
    with DALIServer(noisy(), num_workers=num_workers) as server:
        return Epoch(server, DrawingDataset(SAMPLES, server.proxy), []).run().digest.hexdigest()


def test_numbers_of_workers_that_change_in_an_epoch_give_the_same_bits(decisions: Any) -> None:
    with DALIServer(noisy(), num_workers="auto") as server:
        epoch = Epoch(server, DrawingDataset(SAMPLES, server.proxy), decisions)
        for count in (1, 3, 1, 0, 2):
            epoch.run(15).resize(count)
        changed = epoch.run()
        assert len(changed.indices) == SAMPLES
    assert changed.digest.hexdigest() == fixed(1) == fixed(3)


def test_worker_that_leaves_finishes_its_batch(decisions: Any, tmp_path: Path, capfd: Any) -> None:
    with DALIServer(noisy(), num_workers="auto") as server:
        dataset = BlockedDataset(SAMPLES, server.proxy, tmp_path)
        epoch = Epoch(server, dataset, decisions, shuffle=False).run(1).resize(3).run(4)
        _wait_until_blocked(tmp_path)
        epoch.resize(1)
        (tmp_path / "go").touch()
        epoch.run()
        wait_until(lambda: len(_workers(server)) == 1, "the end of two workers")
    assert sorted(epoch.indices) == [*range(SAMPLES)]
    assert (tmp_path / "reads").stat().st_size == SAMPLES
    assert "died" not in (output := capfd.readouterr().err)
    assert "dataset worker" not in output


def test_worker_that_is_killed_while_it_leaves_costs_no_batch(decisions: Any, tmp_path: Path, capfd: Any) -> None:
    with DALIServer(noisy(), num_workers="auto") as server:
        dataset = BlockedDataset(SAMPLES, server.proxy, tmp_path)
        epoch = Epoch(server, dataset, decisions, shuffle=False).run(1).resize(3).run(4)
        pid = _wait_until_blocked(tmp_path)
        epoch.decisions[-1](1)
        os.kill(pid, signal.SIGKILL)
        (tmp_path / "go").touch()
        epoch.run()
    assert sorted(epoch.indices) == [*range(SAMPLES)]
    assert f"(pid {pid}) was killed" in capfd.readouterr().err


def test_pool_shrinks_while_another_loop_starts(decisions: Any) -> None:
    with DALIServer(noisy(), num_workers="auto") as server:
        first = Epoch(server, DrawingDataset(SAMPLES, server.proxy), decisions).run(1).resize(3).run(5)
        decisions[-1](0)
        second = Epoch(server, DrawingDataset(SAMPLES, server.proxy), decisions)
        for _ in range(SAMPLES):
            first.run(1)
            second.run(1)
    assert first.digest.hexdigest() == second.digest.hexdigest() == fixed(1)


def test_loop_resumes_where_it_was_with_other_workers(decisions: Any) -> None:
    with DALIServer(noisy(), num_workers="auto") as server:
        dataset = DrawingDataset(SAMPLES, server.proxy)
        first = Epoch(server, dataset, decisions).run(10).resize(2).run(10)
        state = first.loader.state_dict()
        rest = [batch[2].tolist() for batch in first.batches]
        second = DataLoader(server, dataset, batch_size=BATCH, shuffle=True)
        second.load_state_dict(state)
        resumed = iter(second)
        found = [next(resumed)[2].tolist() for _ in range(10)]
        first.resize(0)
        found += [batch[2].tolist() for batch in resumed]
    assert found == rest


@pytest.mark.parametrize("kind", ["locked", "large"])
def test_dataset_that_cannot_be_sent_is_read_in_this_process(
    decisions: Any, kind: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "large":
        monkeypatch.setattr("dali_proxy._loader.pool_loader.available_memory", lambda: 256)
    with caplog.at_level(logging.WARNING, "dali_proxy"), DALIServer(noisy(), num_workers="auto") as server:
        dataset = (LockedDataset if kind == "locked" else IndexDataset)(SAMPLES, server.proxy)
        epoch = Epoch(server, dataset, decisions).run(1).resize(1).run()
        assert sorted(epoch.indices) == [*range(SAMPLES)]
        expected = "cannot pickle '_thread.lock'" if kind == "locked" else "more than 64 bytes"
        assert expected in server.stats().num_workers_reason
    (message,) = [record.getMessage() for record in caplog.records if "this process reads" in record.getMessage()]
    assert message.startswith(f"this process reads the samples of {type(dataset).__name__}: ")
    assert expected in message


def test_serve_lets_the_number_change_unless_it_is_given(decisions: Any) -> None:
    with serve(_double, batch_size=BATCH) as server:
        assert server.num_workers == "auto"
        dataset = PidDataset(16, server.proxy)
        choices: list[tuple[dict[str, Any], bool]] = [
            ({}, True),
            ({"num_workers": 0}, True),
            ({"num_workers": 1}, False),
        ]
        for options, here in choices:
            loader = DataLoader(server, dataset, batch_size=BATCH, **options)
            pids = {int(pid) for batch in loader for pid in batch[2]}
            assert (pids == {os.getpid()}) is here
        assert [batch[1].tolist() for batch in DataLoader(server, IndexStream(4, server.proxy), batch_size=2)] == [
            [0, 1],
            [2, 3],
        ]
        assert len(decisions) == 1, "only the loader without num_workers"
        assert server._life.dataset_workers is None
    assert DALIServer(noisy()).num_workers == 0


def test_attributes_of_a_dataset_may_raise_any_error(decisions: Any) -> None:
    with DALIServer(noisy(), num_workers="auto") as server:
        epoch = Epoch(server, DatasetWithSettings(SAMPLES, server.proxy), decisions, shuffle=False)
        assert epoch.run(2).resize(1).run().indices == list(range(SAMPLES))
        assert set(epoch.batches._inner.modules()) == {"dali_proxy._worker.proxy", __name__}


def test_signal_handler_that_raises_while_this_process_reads_loses_no_batch(decisions: Any) -> None:
    def interrupt(number: int, frame: object) -> None:
        raise TimeoutError("the handler's")

    before = signal.signal(signal.SIGUSR1, interrupt)
    interrupted = 0
    try:
        with DALIServer(noisy(), num_workers="auto") as server:
            epoch = Epoch(server, InterruptedDataset(40, server.proxy), decisions)
            while len(epoch.indices) < 40:
                try:
                    epoch.run()
                except TimeoutError:
                    interrupted += 1
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert interrupted == 5
    assert sorted(epoch.indices) == [*range(40)]


class InterruptedDataset(IndexDataset):
    """Sends its process a signal at every eighth sample, once."""

    def __init__(self, length: int, transform: Any) -> None:
        super().__init__(length, transform)
        self.seen: set[int] = set()

    def __getitem__(self, index: int) -> Any:
        if index % 8 == 0 and index not in self.seen:
            self.seen.add(index)
            os.kill(os.getpid(), signal.SIGUSR1)
        return super().__getitem__(index)


def _double(x: Any) -> Any:
    return x * 2


def _workers(server: DALIServer) -> list[psutil.Process]:
    assert server._life.dataset_workers is not None
    found = []
    with suppress(psutil.NoSuchProcess):
        found = psutil.Process(server._life.dataset_workers._process.pid).children()
    return [each for each in found if each.status() != psutil.STATUS_ZOMBIE]


def _wait_until_blocked(folder: Path) -> int:
    """Wait until a worker waits, and return its process ID."""
    wait_until(lambda: any(folder.glob("pid-*")), "a worker that waits")
    return int(next(folder.glob("pid-*")).name.removeprefix("pid-"))
