"""A call that never returns ends the work that waits for it, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._concurrency.stuck_calls import GiveUp, StuckCalls, this_thread
from dali_proxy.pipeline._concurrency.work_queue import WorkQueue
from pipeline import Pipeline, errors, fn
from tests.waiting import PATIENCE_S, wait_until


@pytest.fixture
def calls() -> Any:
    made = StuckCalls("it didn't return", 0.05)
    yield made
    made.close()


@contextmanager
def giving_up(give_up: GiveUp) -> Iterator[None]:
    this_thread.give_up = give_up
    yield
    this_thread.give_up = None


def test_call_that_returns_is_not_given_up(calls: StuckCalls) -> None:
    given_up: list[tuple[threading.Thread, str]] = []
    with giving_up(lambda *what: given_up.append(what)), calls.watched():
        pass
    with giving_up(lambda *what: given_up.append(what)):
        wait_until(lambda: calls._calls == {})
    assert not calls.found
    assert given_up == []


def test_call_that_does_not_return_is_given_up_once(calls: StuckCalls) -> None:
    given_up: list[tuple[threading.Thread, str]] = []
    with giving_up(lambda *what: given_up.append(what)), calls.watched():
        wait_until(lambda: bool(given_up))
        wait_until(lambda: not calls._calls)
    assert calls.found
    assert given_up == [(threading.current_thread(), "it didn't return")]


def test_thread_without_work_is_only_noticed(calls: StuckCalls) -> None:
    with calls.watched():
        wait_until(lambda: calls.found)


def test_queue_goes_on_and_closes_without_the_thread_that_is_stuck() -> None:
    returns, stuck, done = threading.Event(), threading.Event(), threading.Event()
    threads: list[threading.Thread] = []

    def hang() -> None:
        threads.append(threading.current_thread())
        stuck.set()
        returns.wait(PATIENCE_S)

    work_queue = WorkQueue("test-stuck", 1)
    work_queue.put(hang)
    assert stuck.wait(PATIENCE_S)
    work_queue.abandon(threads[0])
    work_queue.put(done.set)
    assert done.wait(PATIENCE_S)
    work_queue.close()
    returns.set()
    threads[0].join(PATIENCE_S)
    assert not threads[0].is_alive(), "it doesn't take the place of its successor again"


def test_batch_whose_operator_is_stuck_is_an_error_that_names_it_and_later_batches_run(calls: StuckCalls) -> None:
    returns = threading.Event()

    def hang_once(x: Any) -> Any:
        if x[0] == 2:
            with calls.watched():
                returns.wait(PATIENCE_S)
        return x + 1

    with Pipeline(batch_size=2, num_threads=1, device_id=None, prefetch_queue_depth=1) as pipe:
        numbers = fn.external_source(name="x")
        pipe.set_outputs(fn.python_function(numbers, function=hang_once, name="sometimes"))
    pipe.build()
    try:
        assert pipe.run(x=np.array([[0], [1]]))[0].as_array().tolist() == [[1], [2]]
        with pytest.raises(errors.PipelineError, match=r"(?s)sometimes.*it didn't return.*test_stuck_calls.py"):
            pipe.run(x=np.array([[2], [3]]))
        assert pipe.run(x=np.array([[4], [5]]))[0].as_array().tolist() == [[5], [6]]
    finally:
        returns.set()
        pipe.close()
        wait_until(lambda: not [each for each in threading.enumerate() if "cpu-stage" in each.name])
