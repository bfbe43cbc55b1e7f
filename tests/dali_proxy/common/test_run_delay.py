"""The time that a thread got no core."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time

import pytest

from dali_proxy._common.run_delay import run_delay
from dali_proxy._loader.batches import CollatedBatch, Cost, with_run_delay


def _compute(end: float) -> None:
    while time.monotonic() < end:
        pass


@pytest.mark.skipif(not os.path.exists("/proc/thread-self/schedstat"), reason="the system doesn't count it")
def test_time_without_a_core_is_counted_for_the_thread() -> None:
    context = multiprocessing.get_context("fork")
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, [min(cores)])  # the other process has the same core
    try:
        other = context.Process(target=_compute, args=(time.monotonic() + 0.3,))
        other.start()
        begin, before, used = time.monotonic(), run_delay(), time.thread_time()
        _compute(begin + 0.3)
        elapsed, delay, used = time.monotonic() - begin, run_delay() - before, time.thread_time() - used
        other.join()
    finally:
        os.sched_setaffinity(0, cores)
    assert delay > 0.05
    assert delay + used == pytest.approx(elapsed, rel=0.3)
    found: list[float] = []
    thread = threading.Thread(target=lambda: found.append(run_delay()))
    thread.start()
    thread.join()
    assert found[0] < before + delay


@pytest.mark.parametrize(("delay", "expected"), [(0.5, 0.8), (0.25, 0.3)])
def test_cost_of_a_batch_includes_it_if_the_thread_did_nothing_else(
    monkeypatch: pytest.MonkeyPatch, delay: float, expected: float
) -> None:
    monkeypatch.setattr("dali_proxy._loader.batches.run_delay", lambda: 7 + delay)
    batch = with_run_delay(CollatedBatch(None, None, None, Cost(1.0, 0, 0, processor=0.3)), 7.0)
    assert batch.cost is not None
    assert batch.cost.processor == pytest.approx(expected)
    assert with_run_delay(CollatedBatch(None, None), 7.0).cost is None
