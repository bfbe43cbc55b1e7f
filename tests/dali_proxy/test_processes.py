"""Processes that are stopped, terminated, nested or replaced, and processes that hang when their parent ends."""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from dali_proxy import DALIServer, DataLoader
from tests.dali_proxy.indexed import IndexDataset, affine, check_affine
from tests.waiting import PATIENCE_S, soon, wait_until

fork = multiprocessing.get_context("fork")


class WaitingDataset(IndexDataset):
    """Waits a little for each sample."""

    def __getitem__(self, index: int) -> Any:
        time.sleep(0.001)
        return super().__getitem__(index)


def train(mode: Any, timeout: float, found: Any) -> None:
    """Train until the samples are read or this process is told to stop."""
    told: list[int] = []
    signal.signal(signal.SIGUSR1, lambda number, _: told.append(number))
    with DALIServer(affine(), mode=mode, timeout=timeout) as server:
        seen: list[int] = []
        for batch in DataLoader(server, WaitingDataset(10**6, server.proxy), batch_size=4, num_workers=2):
            seen += check_affine(*batch)
            if len(seen) == 4:
                workers = [child.pid for child in psutil.Process().children() if child.pid != server.pid]
                found.put((server.pid, workers))
            if told:
                break
        assert seen == list(range(len(seen)))


def begin(mode: str = "process", timeout: float = 300.0) -> tuple[Any, dict[str, list[psutil.Process]]]:
    """Start a training, and return its process and all its processes by role."""
    found = fork.SimpleQueue()
    training = fork.Process(target=train, args=(mode, timeout, found))
    training.start()
    server, workers = found.get()
    found.close()
    roles = {"training": [training.pid], "server": [server], "workers": workers}
    return training, {role: [psutil.Process(pid) for pid in dict.fromkeys(pids)] for role, pids in roles.items()}


@pytest.mark.parametrize(
    ("stopped", "seconds", "timeout"),
    [
        (("training",), 2.5, 1.5),
        (("training", "server", "workers"), 2.5, 1.5),
        *(
            pytest.param((role,), seconds, 300.0, marks=[pytest.mark.faults, pytest.mark.timeout(300)])
            for role in ("training", "server", "workers")
            for seconds in (10, 120)
        ),
    ],
    ids=str,
)
def test_processes_that_were_stopped_continue(stopped: tuple[str, ...], seconds: float, timeout: float) -> None:
    training, processes = begin(timeout=timeout)
    chosen = [process for role in stopped for process in processes[role]]
    for process in chosen:
        process.suspend()
    time.sleep(seconds)  # longer than a timeout that counts the time
    for process in reversed(chosen):
        process.resume()
    time.sleep(0.5)  # a few more batches
    processes["training"][0].send_signal(signal.SIGUSR1)
    training.join(PATIENCE_S)
    assert training.exitcode == 0, "its traceback is above"


def test_sigterm_of_all_processes_leaves_nothing() -> None:
    training, processes = begin()
    everything = [process for role in processes.values() for process in role]
    with soon():
        for process in reversed(everything):
            process.terminate()
        training.join(PATIENCE_S)
        _, alive = psutil.wait_procs(everything, timeout=PATIENCE_S)
    assert not alive
    assert not list(Path(tempfile.gettempdir()).glob("dali-proxy-*"))


class HangingDataset(IndexDataset):
    """Hangs in a worker: in its first sample, or while it is unpickled."""

    def __init__(self, transform: Any, folder: Path) -> None:
        super().__init__(100, transform)
        self.folder = folder

    def __getitem__(self, index: int) -> Any:
        self.hang()

    def __setstate__(self, state: Any) -> None:
        self.__dict__ = state
        self.hang()

    def hang(self) -> None:
        (self.folder / str(os.getpid())).touch()
        while True:
            time.sleep(1000)


def loop_over_a_hanging_dataset(folder: Path, method: str) -> None:
    with DALIServer(affine(), mode="thread") as server:
        next(
            iter(
                DataLoader(server, HangingDataset(server.proxy, folder), num_workers=2, multiprocessing_context=method)
            )
        )


@pytest.mark.parametrize(
    "method", ["fork", *(pytest.param(method, marks=pytest.mark.faults) for method in ("spawn", "forkserver"))]
)
def test_hanging_worker_ends_with_its_parent(method: str, tmp_path: Path) -> None:
    training = fork.Process(target=loop_over_a_hanging_dataset, args=(tmp_path, method))
    training.start()
    wait_until(lambda: len(list(tmp_path.iterdir())) == 2)
    workers = [psutil.Process(int(path.name)) for path in tmp_path.iterdir()]
    with soon():
        training.kill()
        training.join(PATIENCE_S)
        _, alive = psutil.wait_procs(workers, timeout=PATIENCE_S)
    assert not alive
    with DALIServer(affine()):  # removes the folder of the killed server
        pass
