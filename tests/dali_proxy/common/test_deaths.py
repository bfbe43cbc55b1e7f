"""Messages about workers that ended."""

from __future__ import annotations

import math
import multiprocessing
import os
import select
import signal
import time
from types import SimpleNamespace
from typing import Any

import pytest

from dali_proxy._common.process_exit import EndedWorkers, dead_worker, end_workers
from dali_proxy.errors import ProxyError
from tests.waiting import wait_until


def ended(code: int, start_method: str) -> Any:
    return SimpleNamespace(pid=7, exitcode=code, _start_method=start_method)


def test_dead_worker_is_recognised_in_an_error_of_torch() -> None:
    """Torch's handler of SIGCHLD raises at any point, for example while a result is opened."""
    torchs = RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed.")
    ours = ProxyError("a batch arrived, but its memory can't be opened here")
    assert dead_worker([ended(-9, "fork")], ours) is None
    ours.__cause__ = torchs
    for error in (torchs, ours):
        assert "worker 0 (pid 7) was killed by SIGKILL" in str(dead_worker([ended(-9, "fork")], error))
    assert dead_worker([], ours) is None


def test_workers_that_a_dead_one_left_are_ended_by_a_call_of_their_own() -> None:
    workers = [multiprocessing.Process(target=time.sleep, args=(600,)) for _ in range(2)]
    for worker in workers:
        worker.start()
    workers[0].kill()
    workers[0].join()
    died = dead_worker(workers)
    assert "worker 0" in str(died)
    assert "with load_state_dict()" in str(died)
    assert "worker 1" not in str(died)
    assert workers[1].is_alive()
    end_workers(workers)
    assert workers[1].exitcode == -signal.SIGKILL
    for worker in workers:
        worker.close()


@pytest.mark.parametrize(
    ("code", "start_method", "says_why", "names_main"),
    [(1, "spawn", True, True), (1, "fork", True, False), (-9, "spawn", False, False)],
)
def test_advice_fits_the_cause_of_death(code: int, start_method: str, says_why: bool, names_main: bool) -> None:
    died = dead_worker([ended(code, start_method)])
    assert str(died).startswith("worker 0 (pid 7) ")
    assert ("See its output" in str(died), "__main__" in str(died)) == (says_why, names_main)


def test_ended_workers_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dali_proxy._common.process_exit._INTERVAL", math.inf)  # the pipes must suffice
    ends = [multiprocessing.Event() for _ in range(3)]
    workers = [multiprocessing.Process(target=end.wait) for end in ends]
    ended = EndedWorkers()
    assert not ended.any_of([])
    for worker in workers:
        worker.start()
    assert not ended.any_of(workers)
    ends[1].set()
    workers[1].join()
    wait_until(lambda: ended.any_of(workers))  # a forkserver sends the exit code before it closes the pipe
    others = [workers[0], workers[2]]
    assert not ended.any_of(others)
    for end, worker in zip(ends, workers, strict=True):
        end.set()
        worker.join()
    wait_until(lambda: ended.any_of(others))


def test_worker_that_ends_before_its_own_child_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A forked child keeps the pipe open whose end shows that of the worker."""
    monkeypatch.setattr("dali_proxy._common.process_exit._INTERVAL", 0.05)
    begun, end = multiprocessing.Event(), multiprocessing.Event()

    def leave_child() -> None:
        if os.fork():
            begun.wait()
        else:
            begun.set()
            end.wait()
        os._exit(3)

    workers = [multiprocessing.get_context("fork").Process(target=leave_child)]
    workers[0].start()
    begun.wait()
    workers[0].join()
    ended = EndedWorkers()
    try:
        assert not select.select([workers[0].sentinel], [], [], 0)[0]
        wait_until(lambda: ended.any_of(workers))
    finally:
        end.set()
