"""Processes that are stopped, terminated, nested or replaced, and processes that hang when their parent ends."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest

from dali_proxy import DALIServer, DataLoader, ProxyError
from tests.dali_proxy.indexed import IndexDataset, affine, check_affine
from tests.environment import with_project
from tests.waiting import PATIENCE_S, soon, wait_until

fork = multiprocessing.get_context("fork")


class WaitingDataset(IndexDataset):
    """Waits a little for each sample."""

    def __getitem__(self, index: int) -> Any:
        time.sleep(0.001)
        return super().__getitem__(index)


def train(mode: Any, timeout: float, found: Any, count: Any) -> None:
    """Train until the samples are read or this process is asked to stop, and count the samples."""
    received: list[int] = []
    signal.signal(signal.SIGUSR1, lambda number, _: received.append(number))
    with DALIServer(affine(), mode=mode, timeout=timeout) as server:
        seen: list[int] = []
        for batch in DataLoader(server, WaitingDataset(10**6, server.proxy), batch_size=4, num_workers=2):
            seen += check_affine(*batch)
            count.value = len(seen)
            if len(seen) == 4:
                workers = [child.pid for child in psutil.Process().children() if child.pid != server.pid]
                found.put((server.pid, workers))
            if received:
                break
        assert seen == list(range(len(seen)))


def begin(mode: str = "process", timeout: float = 300.0) -> tuple[Any, dict[str, list[psutil.Process]], Any]:
    """Start training, and return its process, all its processes by role, and its number of samples."""
    found, count = fork.SimpleQueue(), fork.Value("q", 0, lock=False)
    training = fork.Process(target=train, args=(mode, timeout, found, count))
    training.start()
    server, workers = found.get()
    found.close()
    roles = {"training": [training.pid], "server": [server], "workers": workers}
    processes = {role: [psutil.Process(pid) for pid in dict.fromkeys(pids)] for role, pids in roles.items()}
    return training, processes, count


def stop_for(seconds: float, *runs: tuple[float, tuple[str, ...]]) -> None:
    """Train with each timeout, all at the same time. Stop processes with these roles, in this order, for a while."""
    begun = [begin(timeout=timeout) for timeout, _ in runs]
    stopped = [
        each for (_, found, _), (_, roles) in zip(begun, runs, strict=True) for role in roles for each in found[role]
    ]
    for process in stopped:
        process.suspend()
        time.sleep(0.1)  # a training whose server is stopped waits for it soon
    time.sleep(seconds)
    for process in reversed(stopped):
        process.resume()
    for training, found, count in begun:
        enough = count.value + 40  # a few more batches
        wait_until(lambda: count.value >= enough or not training.is_alive())  # noqa: B023 # it is called at once
        found["training"][0].send_signal(signal.SIGUSR1)
        training.join(PATIENCE_S)
        assert training.exitcode == 0, "its traceback is above"


def test_time_for_which_the_training_was_stopped_does_not_count() -> None:
    stop_for(5.0, (4.0, ("training",)), (4.0, ("server", "workers", "training")))


@pytest.mark.faults
@pytest.mark.timeout(300)
@pytest.mark.parametrize("role", ["training", "server", "workers"])
@pytest.mark.parametrize("seconds", [10, 120])
def test_processes_that_were_stopped_continue(role: str, seconds: float) -> None:
    stop_for(seconds, (300.0, (role,)))


def test_sigterm_of_all_processes_leaves_nothing() -> None:
    training, processes, _ = begin()
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


REPLACED = """
import os, psutil, sys
from dali_proxy import DALIServer, DataLoader, ProxyError
from tests.dali_proxy.indexed import IndexDataset, affine

server = DALIServer(affine(), mode=sys.argv[1])
iterator = iter(DataLoader(server, IndexDataset(4000, server.proxy), batch_size=4, num_workers=2))
next(iterator)
print(*(child.pid for child in psutil.Process().children()), flush=True)
os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(100)"])
"""


def has_ended(process: psutil.Process) -> bool:
    """Return whether a process has ended, even if its parent never asks for its status."""
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


@pytest.mark.faults
def test_program_that_replaces_the_training_ends_its_processes(mode: str) -> None:
    command = [sys.executable, "-c", REPLACED, mode]
    with subprocess.Popen(command, env=with_project(), stdout=subprocess.PIPE, text=True) as training:
        assert training.stdout is not None
        try:
            processes = [psutil.Process(int(pid)) for pid in training.stdout.readline().split()]
            if mode == "process":
                with soon():
                    wait_until(lambda: has_ended(processes[0]), "the end of the server")
            wait_until(lambda: all(map(has_ended, processes)), "the end of the workers")
        finally:
            training.kill()
    with DALIServer(affine(), mode="thread"):  # removes the folder of a server that was a thread of the program
        pass


@pytest.mark.faults
def test_forks_in_threads_of_the_user_disturb_no_loop(mode: str) -> None:
    with DALIServer(affine(), mode=mode) as server:  # type: ignore[arg-type]
        ended = threading.Event()
        codes: Counter[tuple[str, int]] = Counter()

        def fork_and_wait(child: str) -> None:
            while not ended.wait(0.02):  # else a busy machine does nothing but fork
                pid = os.fork()
                if pid == 0:
                    try:
                        if child == "garbage":
                            gc.collect()
                        elif child == "program":
                            os.execv("/bin/true", ["true"])
                        elif mode == "process":
                            loader = DataLoader(server, IndexDataset(16, server.proxy), batch_size=4)
                            assert [index for batch in loader for index in check_affine(*batch)] == list(range(16))
                    except BaseException:  # noqa: BLE001
                        os._exit(1)
                    os._exit(0)
                codes[child, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])] += 1

        threads = [threading.Thread(target=fork_and_wait, args=(name,)) for name in ("garbage", "program", "loop")]
        for thread in threads:
            thread.start()
        try:
            for num_workers in (0, 2, 0, 2):
                loader = DataLoader(server, IndexDataset(800, server.proxy), batch_size=4, num_workers=num_workers)
                assert [index for batch in loader for index in check_affine(*batch)] == list(range(800))
        finally:
            ended.set()
            for thread in threads:
                thread.join()
    assert {code for _, code in codes} == {0}


class LoopingDataset(IndexDataset):
    """Starts a server and runs a loop for each sample."""

    def __getitem__(self, index: int) -> Any:
        with DALIServer(affine()) as server:
            loader = DataLoader(server, IndexDataset(4, server.proxy), batch_size=2)
            assert [number for batch in loader for number in check_affine(*batch)] == list(range(4))
        return super().__getitem__(index)


def loop_in_a_daemon(mode: Any) -> None:
    with DALIServer(affine(), mode=mode) as server:
        dataset = IndexDataset(8, server.proxy)
        loader = DataLoader(server, dataset, batch_size=4)
        assert [index for batch in loader for index in check_affine(*batch)] == list(range(8))
        with pytest.raises(ProxyError, match="daemonic process"):
            iter(DataLoader(server, dataset, batch_size=4, num_workers=1))


@pytest.mark.faults
def test_servers_in_a_worker_and_in_a_daemonic_process(mode: str) -> None:
    with DALIServer(affine(), mode=mode) as server:  # type: ignore[arg-type]
        loader = DataLoader(server, LoopingDataset(8, server.proxy), batch_size=4, num_workers=1)
        assert [index for batch in loader for index in check_affine(*batch)] == list(range(8))
    daemon = fork.Process(target=loop_in_a_daemon, args=(mode,), daemon=True)
    daemon.start()
    daemon.join(PATIENCE_S)
    assert daemon.exitcode == 0, "its traceback is above"
