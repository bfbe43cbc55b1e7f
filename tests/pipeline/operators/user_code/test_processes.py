"""Python functions in worker processes: same results, same errors, and processes that die, hang or are stopped."""

from __future__ import annotations

import faulthandler
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch

from dali_proxy.pipeline._operators.user_code.python_function import _Trial
from dali_proxy.pipeline._user_functions.seeding import GlobalGenerators
from pipeline import Pipeline, fn, operator_def
from pipeline.errors import ArgumentValueError, OperatorError, WorkerError
from tests.waiting import wait_until

FEED = [np.full((2, 1 + i), i, np.float32) for i in range(6)]


def pipe_of(function: Any, threads: int = 2, *, seed: int = 5, pipeline: Any = None, **arguments: Any) -> Pipeline:
    with Pipeline(batch_size=6, num_threads=threads, device_id=None, seed=seed, **(pipeline or {})) as pipe:
        pipe.set_outputs(fn.python_function(fn.external_source(name="x"), function=function, **arguments))
    return pipe


def run(*arguments: Any, batches: int = 1, **keywords: Any) -> list[Any]:
    pipe = pipe_of(*arguments, **keywords)
    try:
        return [np.asarray(sample).tolist() for _ in range(batches) for sample in pipe.run(x=FEED)[0]]
    finally:
        pipe.close()


def drawn(x: Any) -> Any:
    return np.array([random.random(), np.random.rand(), np.random.randn(), torch.rand(()).item(), x.sum()])


def states() -> list[Any]:
    return [random.getstate(), np.random.get_state(legacy=False), torch.get_rng_state().tolist()]


def test_random_numbers_do_not_depend_on_processes_or_threads() -> None:
    np.random.randn()  # leaves a second number for the next call, which is a part of the state
    before = states()
    expected = run(drawn, 1, batches=2)
    assert len({tuple(sample) for sample in expected}) == 12
    for threads, parallel in ((3, False), (1, True), (3, True)):
        assert run(drawn, threads, batches=2, parallel=parallel) == expected
    np.testing.assert_equal(states(), before)
    assert run(drawn, seed=6) != expected[:6]
    whole = [
        run(lambda xs: [drawn(x) for x in xs], batch_processing=True, parallel=parallel) for parallel in (False, True)
    ]
    assert whole[0] == whole[1] != expected[:6]


def test_pipelines_without_a_seed_leave_the_generators_to_the_user() -> None:
    np.random.seed(3)
    expected = np.random.rand()
    np.random.seed(3)
    assert run(lambda x: np.random.rand(1), seed=-1)[0] == [expected]


def test_pipeline_inside_of_a_function_does_not_wait_for_its_generators() -> None:
    def nested(x: Any) -> Any:
        with Pipeline(batch_size=1, num_threads=1, device_id=None, seed=1) as pipe:
            pipe.set_outputs(fn.python_function(function=lambda: np.random.rand(1)))
        return pipe.run()[0].as_array() + x

    assert run(nested)[0][0] == [pytest.approx(run(nested)[0][0][0])]


def test_errors_are_the_same_in_processes() -> None:
    def fails(x: Any) -> Any:
        return x if x.sum() < 8 else {}["img"]

    messages = []
    for parallel in (False, True):
        with pytest.raises(
            OperatorError, match=r"sample 2: KeyError: 'img'\n  raised at .* in fails: return x"
        ) as caught:
            run(fails, parallel=parallel)
        assert [failure.sample for failure in caught.value.failures] == [2]
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    with pytest.raises(ValueError, match="no luck"):  # the type is kept, too
        run(lambda x: (_ for _ in ()).throw(ValueError("no luck")), parallel=True)


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("batch_processing", [False, True])
@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_functions_may_modify_their_arguments(parallel: bool, batch_processing: bool, framework: str) -> None:
    @operator_def(framework=framework, parallel=parallel, batch_processing=batch_processing)
    def increased(x: Any) -> Any:
        for each in x if batch_processing else [x]:
            each += 1
        return x

    with Pipeline(batch_size=6, num_threads=2, device_id=None) as pipe:
        data = fn.external_source(name="x")
        pipe.set_outputs(data, increased(data), increased(data))
    before, one, two = (list(map(np.asarray, each)) for each in pipe.run(x=FEED))
    pipe.close()
    for sample, first, second, fed in zip(before, one, two, FEED, strict=True):
        assert sample.tolist() == fed.tolist()
        assert first.tolist() == second.tolist() == (fed + 1).tolist()


def test_call_that_is_repeated_gets_new_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    def increased(x: Any) -> Any:
        x += 1
        return x

    missed = iter([True] + [False] * 5)  # as if the first call had imported torch
    monkeypatch.setattr(GlobalGenerators, "missed", lambda self: next(missed))
    assert run(increased)[0] == (FEED[0] + 1).tolist()


def test_time_of_processes_is_that_of_the_operator() -> None:
    def busy(x: Any) -> Any:
        begin = time.process_time()
        while time.process_time() - begin < 0.01:
            pass
        return x

    pipe = pipe_of(busy, parallel=True)
    pipe.run(x=FEED)
    (times,) = (each for each in pipe._internals.runner.executor.statistics.operators() if "function" in each.name)
    assert times.seconds >= 0.06
    pipe.close()


def test_killed_process_is_replaced() -> None:
    pipe = pipe_of(lambda x: x + 1, parallel=True)
    pipe.run(x=FEED)
    assert pipe._internals._sources is not None
    for pid in pipe._internals._sources.functions.pids:
        os.kill(pid, signal.SIGKILL)
    assert np.asarray(pipe.run(x=FEED)[0][3]).tolist() == (FEED[3] + 1).tolist()
    pipe.close()


@pytest.fixture
def lost_handlers() -> Iterator[None]:
    """Enable `faulthandler`, then reset the signal that it handles, as some libraries do."""
    faulthandler.enable(sys.__stderr__)
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)
    yield
    faulthandler.disable()
    faulthandler.enable(sys.__stderr__)


@pytest.mark.usefixtures("lost_handlers")
def test_function_that_ends_its_processes_costs_its_batch_only() -> None:
    def deadly(x: Any) -> Any:
        if x.sum() == 12:
            os.kill(os.getpid(), signal.SIGSEGV)
        return x

    pipe = pipe_of(deadly, parallel=True)
    expected = r"sample 2: worker \d \(pid \d+\) of the Python functions .* SIGSEGV(?s:.*)its stack:(?s:.*) in deadly"
    with pytest.raises(OperatorError, match=expected) as caught:
        pipe.run(x=FEED)
    assert isinstance(caught.value.__cause__, WorkerError)
    assert "seeding.py" not in str(caught.value)
    assert np.asarray(pipe.run(x=FEED[:2])[0][1]).tolist() == FEED[1].tolist()
    pipe.close()


@pytest.fixture
def watched() -> Iterator[None]:
    """Let `faulthandler` watch this process, as some training scripts do: its thread is missing in forked children."""
    faulthandler.dump_traceback_later(1000)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.mark.usefixtures("watched")
def test_call_that_takes_too_long_is_killed() -> None:
    def hanging(x: Any) -> Any:
        while x.sum() == 12:
            pass
        return x

    children = set(psutil.Process().children())
    with pytest.raises(OperatorError, match=r"longer than 0.2 s \(timeout=\)(?s:.*)line \d+ in hanging"):
        run(hanging, parallel=True, timeout=0.2)
    assert set(psutil.Process().children()) == children
    with pytest.raises(ArgumentValueError, match="'timeout' must be more than 0"):
        run(hanging, timeout=0)


def test_stopped_process_is_replaced() -> None:
    pipe = pipe_of(lambda x: x + 1, threads=1, parallel=True)
    assert pipe._internals._sources is None
    pipe.build()
    assert pipe._internals._sources is not None
    (pid,) = pipe._internals._sources.functions.pids
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    begin = time.monotonic()
    assert np.asarray(pipe.run(x=FEED)[0][3]).tolist() == (FEED[3] + 1).tolist()
    assert time.monotonic() - begin < 60  # forever, without the check
    pipe.close()


def test_spawned_processes_get_functions_with_their_code(tmp_path: Path) -> None:
    spawn = {"py_start_method": "spawn"}
    assert run(lambda x: x + len(FEED), 1, parallel=True, pipeline=spawn)[1] == (FEED[1] + 6).tolist()
    with open(tmp_path / "log", "w") as log:  # noqa: SIM117 - the file is what can't be sent
        with pytest.raises(WorkerError, match=r'log \(of type TextIOWrapper\)(?s:.*)inside the function.*="fork"'):
            run(lambda x: log.write("x"), parallel=True, pipeline=spawn)


@pytest.mark.parametrize(("seconds", "slow"), [(0.002, True), (0.00001, False)])
def test_trial_finds_out_what_is_worth_sending(monkeypatch: pytest.MonkeyPatch, seconds: float, slow: bool) -> None:
    clock = iter(np.arange(100) * seconds)
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    trial = _Trial()
    for _ in range(8):
        assert not trial.is_slow
        assert not trial.is_fast
        trial.call(0, len, lambda: [[]])
    assert (trial.is_slow, trial.is_fast) == (slow, not slow)


@pytest.mark.parametrize("workers", [0, 2])
def test_parallel_sources_are_seeded(workers: int) -> None:
    with Pipeline(batch_size=4, num_threads=1, device_id=None, seed=2, py_num_workers=workers) as pipe:
        pipe.set_outputs(fn.external_source(lambda info: np.random.rand(1), batch=False, parallel=True))
    first, second = (pipe.run()[0].as_array().ravel().tolist() for _ in range(2))
    pipe.close()
    assert len({*first, *second}) == 8
    assert first[0] == pytest.approx(0.0, abs=1.0)
    SOURCES.add(tuple(first))
    assert len(SOURCES) == 1


SOURCES: set[tuple[float, ...]] = set()  # what the runs with different numbers of workers have drawn
