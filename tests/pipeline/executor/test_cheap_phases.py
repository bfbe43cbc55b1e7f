"""Phases and samples that cost less than waking another thread run on the thread that has them."""

from __future__ import annotations

import signal
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._compiler.plan import SampleStep
from dali_proxy.pipeline._compiler.rules.joint_draws import JointDraws
from dali_proxy.pipeline._compiler.steps import chain
from dali_proxy.pipeline._concurrency.thread_pool import ThreadPool
from dali_proxy.pipeline._executor import BatchRequest, BatchResult, Executor, ExecutorConfig
from dali_proxy.pipeline._operators.geometry.flip import FlipCpu
from pipeline import Pipeline, errors, fn
from pipeline.tensors import TensorListCPU
from tests import host_cupy
from tests.pipeline.graphs import graph_of
from tests.pipeline.kernels import emulator

CONFIG = ExecutorConfig(max_batch_size=8, num_threads=2, device_id=None, seed=1)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every phase cheap, however busy the machine is."""
    for module in ("_executor.statistics", "_compiler.steps.chain"):
        monkeypatch.setattr(f"pipeline.{module}._CHEAP", 10**15)
    monkeypatch.setattr("dali_proxy.pipeline._executor.statistics._CHEAP_ON_GPU", 10**15)


def finishers(outputs: list[Any], on_caller: bool, count: int = 4, config: ExecutorConfig = CONFIG) -> list[str]:
    """Run batches one after another, and return the names of the threads that finish them."""
    names: list[str] = []
    done = threading.Semaphore(0)

    def finish(result: BatchResult) -> None:
        assert result.error is None
        names.append(threading.current_thread().name)
        done.release()

    with Executor(graph_of(outputs), config) as executor:
        for _ in range(count):
            executor.submit(BatchRequest(4), finish, on_caller=on_caller)
            assert done.acquire(timeout=60)
    return names


def test_cheap_phase_runs_on_the_caller_after_its_first_batch(patient: None) -> None:
    first, *others = finishers([fn.random.uniform(shape=4) * 2 + 1], on_caller=True)
    assert first != threading.current_thread().name
    assert set(others) == {threading.current_thread().name}


def test_cheap_phase_does_not_run_on_a_caller_that_does_not_allow_it(patient: None) -> None:
    assert threading.current_thread().name not in finishers([fn.random.uniform(shape=4)], on_caller=False)


def test_cheap_phases_on_the_gpu_run_on_the_caller(patient: None) -> None:
    if emulator.COMPILER is None:
        pytest.skip("needs a C++ compiler")
    with host_cupy.installed():
        images = fn.reshape(fn.random.uniform(shape=(4, 4, 3)), layout="HWC").gpu()
        config = replace(CONFIG, device_id=0)
        *_, last = finishers([fn.flip(images, horizontal=1)], on_caller=True, config=config)
    assert last == threading.current_thread().name


def test_user_code_does_not_run_on_the_caller(patient: None) -> None:
    threads: list[threading.Thread] = []

    def noted(number: Any) -> Any:
        threads.append(threading.current_thread())
        return number

    pipe = Pipeline(batch_size=2, num_threads=1, device_id=None, seed=1)
    with pipe:
        pipe.set_outputs(fn.python_function(fn.random.uniform(), function=noted))
    pipe.build()
    for _ in range(4):
        pipe.run()
    assert threads
    assert threading.current_thread() not in threads
    pipe.close()


def test_expensive_phase_does_not_run_on_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dali_proxy.pipeline._executor.statistics._CHEAP", 1)
    assert threading.current_thread().name not in finishers([fn.random.uniform()], on_caller=True)


def test_statistics_count_all_batches_of_a_cheap_phase(patient: None) -> None:
    pipe = Pipeline(batch_size=2, num_threads=1, device_id=None, seed=1)
    with pipe:
        pipe.set_outputs(fn.random.uniform())
    pipe.build()
    for _ in range(40):
        pipe.run()
    (uniform,) = pipe._internals.runner.executor.statistics.operators()
    assert uniform.batches >= 40
    assert uniform.seconds > 0
    pipe.close()


def test_samples_of_a_cheap_chain_run_without_the_pool(patient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: list[int] = []
    run = ThreadPool.run

    def counted(pool: ThreadPool, task: Any, count: int) -> Any:
        jobs.append(count)
        return run(pool, task, count)

    monkeypatch.setattr(ThreadPool, "run", counted)
    pipe = Pipeline(batch_size=3, num_threads=2, device_id=None, seed=1, prefetch_queue_depth=1)
    with pipe:
        pipe.set_outputs(fn.flip(fn.external_source(name="x", layout="HWC"), horizontal=1))
    pipe.build()
    images = np.arange(3 * 2 * 2).reshape(3, 2, 2, 1).astype(np.uint8)
    for _ in range(3):
        (flipped,) = pipe.run(x=images)
        np.testing.assert_array_equal(flipped.as_array(), images[:, :, ::-1])
    pipe.close()
    assert jobs == [3]


def test_chain_of_short_samples_runs_where_it_takes_less_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain, "_CHEAP", 0)
    monkeypatch.setattr(chain, "_SHORT", 10**15)
    step = chain.ChainStep(SampleStep((), ()), [])
    chosen = []
    for here, elapsed in ((False, 30), (True, 20), (True, 20), (False, 10), (False, 10)):
        step._learn(here, 1, elapsed, 8)
        chosen.append(step._runs_here)
    assert chosen == [False, True, True, True, False]  # one measurement doesn't count more than all before


def test_failed_samples_of_a_cheap_chain_are_reported(patient: None) -> None:
    pipe = Pipeline(batch_size=3, num_threads=2, device_id=None, seed=1, prefetch_queue_depth=1)
    with pipe:
        data = fn.external_source(name="x")
        pipe.set_outputs(fn.slice(data, start=[1], shape=[3], axes=[0]))
    pipe.build()
    pipe.run(x=TensorListCPU([np.zeros(4), np.zeros(5), np.zeros(6)]))
    with pytest.raises(errors.OperatorError, match="1 more sample") as caught:
        pipe.run(x=TensorListCPU([np.zeros(3), np.zeros(5), np.zeros(2)]))
    assert [failure.sample for failure in caught.value.failures] == [0, 2]
    pipe.close()


@pytest.mark.parametrize(("operator", "method"), [(JointDraws, "run_as_one"), (FlipCpu, "start"), (FlipCpu, "run")])
def test_interrupt_of_a_cheap_phase_reaches_the_caller(
    operator: Any, method: str, patient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = Pipeline(batch_size=3, num_threads=2, device_id=None, seed=1, prefetch_queue_depth=1)
    with pipe:
        images = fn.external_source(source=lambda: np.zeros((3, 2, 2, 1), np.uint8), layout="HWC")
        pipe.set_outputs(fn.flip(images, horizontal=1), fn.random.uniform())
    pipe.build()
    numbers = [pipe.run()[1].as_array().tolist() for _ in range(3)]
    compute = getattr(operator, method)

    def interrupted(*arguments: Any) -> Any:
        monkeypatch.setattr(operator, method, compute)
        signal.raise_signal(signal.SIGINT)
        return compute(*arguments)

    monkeypatch.setattr(operator, method, interrupted)
    with pytest.raises(KeyboardInterrupt):
        pipe.run()
    assert pipe.run()[1].as_array().tolist() not in numbers
    pipe.close()
