"""Samples that several batches need at once: one batch computes them, and the others wait for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._cache.value_cache import ValueCache
from dali_proxy.pipeline._compiler.steps.cached_step import CachedStep
from pipeline import fn
from pipeline.errors import OperatorError
from tests.pipeline.compiler.cached_runs import Run, Samples, check_equal, crops
from tests.waiting import PATIENCE_S, wait_until

BROKEN = np.frombuffer(b"\xff\xd8 not a JPEG", np.uint8)


@pytest.fixture(params=["100MB", "3KB"])
def cache(request: pytest.FixtureRequest) -> Iterator[ValueCache]:
    made = ValueCache.from_argument(request.param)
    assert made is not None
    yield made
    made.close()


class Gate:
    """Stops the first batch before it decodes, and counts the samples that all batches decode."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, stops: bool = True) -> None:
        self.opened, self.reached = threading.Event(), threading.Event()
        self.decoded: list[int] = []
        self._first = threading.Lock()
        compute = CachedStep._compute
        if not stops:
            self.opened.set()

        def stopped(step: CachedStep, batch: Any) -> None:
            if self._first.acquire(blocking=False):
                self.reached.set()
                assert self.opened.wait(PATIENCE_S)
            self.decoded.append(batch.size)
            compute(step, batch)

        monkeypatch.setattr(CachedStep, "_compute", stopped)

    def then(self, call: Callable[[], Any]) -> Callable[[], Any]:
        """Return a function that calls another one when the first batch has stopped."""
        return lambda: call() if self.reached.wait(PATIENCE_S) else None


@contextmanager
def beside(*calls: Callable[[], Any]) -> Iterator[list[Future[Any]]]:
    """Run functions on a thread each."""
    with ThreadPoolExecutor(len(calls)) as pool:
        yield list(map(pool.submit, calls))


def waiting(cache: ValueCache, count: int) -> Callable[[], bool]:
    """Return a function that says whether batches wait for so many values."""
    return lambda: sum(len(each.wanted) for each in set(cache._claims.values())) == count


def test_batch_waits_for_samples_that_another_one_decodes(
    cache: ValueCache, encoded: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    first, second, plain = Run(crops, shared=cache), Run(crops, shared=cache), Run(crops, 0)
    with beside(lambda: first.batch(encoded[:6]), gate.then(lambda: second.batch(encoded[2:8]))) as results:
        wait_until(waiting(cache, 4))
        wait_until(lambda: gate.decoded == [2])  # the second batch has decoded what only it needs
        gate.opened.set()
        found = [result.result() for result in results]
    assert gate.decoded == [2, 6]
    check_equal(found[0], plain.batch(encoded[:6]))
    check_equal(found[1], Run(crops, 0).batch(encoded[2:8]))
    assert (cache.report()["cache_hits"], cache.report()["cache_misses"]) == (4, 8)
    assert not cache._claims


@pytest.mark.parametrize("cache", ["100MB"], indirect=True)
def test_equal_jobs_at_once_decode_each_sample_once(
    cache: ValueCache, encoded: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch, stops=False)
    runs = [Run(crops, shared=cache) for _ in range(4)]
    with beside(*[lambda run=run: run.epochs(encoded, 2) for run in runs]) as results:
        expected = Run(crops, 0).epochs(encoded, 2)
        for result in results:
            check_equal(result.result(), expected)
    assert sum(gate.decoded) == cache.report()["cache_misses"] == len(encoded)
    assert cache.report()["cache_hits"] == 7 * len(encoded)


def test_equal_samples_of_a_batch_are_decoded_once(
    cache: ValueCache, encoded: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch, stops=False)
    samples = [encoded[0], encoded[1], encoded[0], encoded[0]]
    check_equal(Run(crops, shared=cache).batch(samples), Run(crops, 0).batch(samples))
    assert gate.decoded == [2]


def test_error_of_a_sample_is_raised_in_each_job_that_asked(
    cache: ValueCache, encoded: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    batches = [[encoded[0], BROKEN, encoded[1]], [encoded[2], encoded[1], BROKEN, BROKEN]]
    expected = []
    for batch in batches:
        with pytest.raises(OperatorError) as caught:
            Run(crops, 0).batch(batch)
        expected.append(str(caught.value))

    def run(number: int) -> str:
        with pytest.raises(OperatorError) as caught:
            runs[number].batch(batches[number])
        return str(caught.value)

    runs = [Run(crops, shared=cache) for _ in batches]
    with beside(lambda: run(0), gate.then(lambda: run(1))) as results:
        wait_until(waiting(cache, 2))
        gate.opened.set()
        assert [result.result() for result in results] == expected
    assert not cache._claims
    check_equal(runs[0].batch(encoded[:3]), Run(crops, 0).batch(encoded[:3]) and runs[1].batch(encoded[:3]))


def test_closed_pipeline_releases_what_it_was_to_decode(
    cache: ValueCache, encoded: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    first, second = Run(crops, shared=cache), Run(crops, shared=cache)

    def close() -> None:
        wait_until(waiting(cache, 3))
        first.pipe._internals.runner.executor.close()

    with beside(
        lambda: first.batch(encoded[:3]),
        gate.then(lambda: second.batch(encoded[:3])),
        gate.then(lambda: close()),
    ) as (stuck, waited, closed):
        check_equal(waited.result(), Run(crops, 0).batch(encoded[:3]))  # while the first one is still stuck
        gate.opened.set()
        check_equal(stuck.result(), Run(crops, 0).batch(encoded[:3]))
        closed.result()
    assert not cache._claims


def test_batch_that_a_function_waits_for_waits_for_no_other(encoded: Samples, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(ValueCache, "claim", lambda *arguments: made.append(arguments))
    inner = Run(crops)

    def nested(sample: Any) -> Any:
        return inner.batch([sample])[0][1][0]

    outer = Run(lambda data: fn.python_function(data, function=nested), 0)
    assert len(outer.batch(encoded[:2])) == 1
    assert (made, inner.report["cache_values"]) == ([], 2)
