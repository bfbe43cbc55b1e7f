"""Statistics charge operators for their own work, even if they run together or wait for others."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._compiler.plan import BatchStep
from dali_proxy.pipeline._compiler.rules.fused_images import FusedImages
from dali_proxy.pipeline._compiler.steps.step import Step, Steps
from dali_proxy.pipeline._concurrency.cost import Cost, Costs, spent
from dali_proxy.pipeline._concurrency.thread_pool import ThreadPool
from dali_proxy.pipeline._executor.statistics import Statistics, StepTimes, added
from dali_proxy.pipeline._graph import Graph
from pipeline import Pipeline, fn, types
from tests.pipeline.graphs import graph_of

PAUSE = 0.02  # seconds


def burn(_: Any = None, seconds: float = PAUSE) -> Any:
    """Use a core for the given time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
    return np.zeros(1)


def doze(_: Any = None) -> Any:
    """Wait that long without using a core."""
    time.sleep(PAUSE)
    return np.zeros(1)


def measured(pipe: Pipeline, batches: int, **inputs: Any) -> dict[str, StepTimes]:
    pipe.build()
    for _ in range(batches):
        for name, data in inputs.items():
            pipe.feed_input(name, data)
        pipe.run()
    return {times.name: times for times in pipe._internals.runner.executor.statistics.operators()}


def make(batch_size: int = 4) -> Pipeline:
    return Pipeline(batch_size=batch_size, num_threads=2, device_id=None, seed=1)


def test_functions_that_sleep_cost_no_processor_time() -> None:
    pipe = make(2)
    with pipe:
        x = fn.external_source(name="x")
        pipe.set_outputs(
            fn.python_function(x, function=burn, name="burn"), fn.python_function(x, function=doze, name="doze")
        )
    found = measured(pipe, 2, x=np.zeros((2, 1)))
    burning, dozing = (next(each for each in found.values() if name in each.name) for name in ("burn", "doze"))
    assert (burning.batches, dozing.batches) == (2, 2)
    assert burning.seconds >= 4 * PAUSE
    assert dozing.seconds < burning.seconds / 10
    assert dozing.wall > 3 * PAUSE


def test_chain_charges_each_operator_for_its_own_work() -> None:
    pipe = make()
    with pipe:
        x = fn.external_source(name="x", layout="HWC")
        turned = fn.rotate(x, angle=17.0, keep_size=True)
        pipe.set_outputs(turned, fn.cast(fn.crop(turned, crop=(4, 4)), dtype=types.INT64))
    found = measured(pipe, 5, x=np.zeros((4, 600, 600, 3), np.uint8))
    assert found["fn.rotate"].seconds > 10 * found["fn.cast"].seconds > 0
    assert all("→" not in name for name in found)
    assert {times.batches for times in found.values()} == {5}


def test_operators_that_run_as_one_are_measured_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FusedImages, "run_members", lambda *_: pytest.fail("a measured batch runs something else"))
    pipe = make()
    with pipe:
        x = fn.external_source(name="x", layout="HWC")
        pipe.set_outputs(fn.crop_mirror_normalize(fn.resize(x, size=(30, 30)), mean=[1.0, 2.0, 3.0]))
    found = measured(pipe, 3, x=np.full((4, 200, 200, 3), 9, np.uint8))
    assert found.keys() == {"fn.external_source (name='x')", "fn.resize → fn.crop_mirror_normalize"}
    assert found["fn.resize → fn.crop_mirror_normalize"].seconds > 0
    assert set(pipe._internals.runner.executor.statistics.labels.values()) == found.keys()


def test_operators_of_one_name_are_distinguished_by_line() -> None:
    pipe = make()
    with pipe:
        x = fn.external_source(name="x")
        first = fn.flip(x, horizontal=1)
        both = [fn.flip(each, horizontal=1) for each in (first, x)]
        pipe.set_outputs(*both)
    found = measured(pipe, 3, x=np.zeros((4, 8, 8, 3), np.uint8))
    flips = [times for name, times in found.items() if name.startswith("fn.flip (test_statistics.py:")]
    assert [times.batches for times in flips] == [3, 3]


def test_caller_is_charged_for_the_work_of_threads() -> None:
    with ThreadPool(2, "test") as pool:
        begin = spent()
        pool.run(burn, 4)
        cost = spent().minus(begin)
        assert cost.processor >= 4 * PAUSE * 1e9
        assert cost.elapsed >= 4 * PAUSE * 1e9
        job = pool.start(burn, 1)
        job.wait()
        begin = spent()
        job.wait()
        assert spent().minus(begin).processor < PAUSE * 1e9, "work is charged once"


def test_caller_is_not_charged_for_waiting_for_threads() -> None:
    with ThreadPool(1, "test") as pool:
        begin, started = spent(), time.perf_counter()
        behind = [pool.start(doze, 10), pool.start(lambda _: None, 1)][1]  # one thread: the other job runs first
        behind.wait()
        cost, passed = spent().minus(begin), time.perf_counter() - started
        assert passed >= 10 * PAUSE
        assert cost.processor < 5 * PAUSE * 1e9
        assert cost.elapsed < (passed - 5 * PAUSE) * 1e9


@pytest.fixture
def graph() -> Graph:
    x = fn.external_source(name="x")
    return graph_of([fn.cast(fn.flip(x), dtype=types.FLOAT)])


class Alone(Step):
    def run(self, batch: Any) -> None: ...


def step_of(nodes: Any) -> Steps:
    return Steps(BatchStep(nodes, ()), [Alone([node]) for node in nodes], ())


def costs(nodes: Any, *each: Cost) -> Costs:
    made = Costs()
    made._added += [(node.index, *cost) for node, cost in zip(nodes, each, strict=True)]
    return made


def seconds(statistics: Statistics) -> dict[str, float]:
    return {times.name: round(times.seconds * 1e9) for times in statistics.operators()}


def test_division_of_a_charge_is_final(graph: Graph) -> None:
    nodes = graph.nodes[1:]
    chain = step_of(nodes)
    statistics = Statistics(graph, {}, [chain])
    statistics.end(chain, Cost(1000, 1000), None)
    assert seconds(statistics) == {"fn.flip → fn.cast": 1000}, "the shares are still unknown"
    statistics.end(chain, Cost(1000, 1000), costs(nodes, Cost(30, 0), Cost(10, 0)))
    assert seconds(statistics) == {"fn.flip": 1500, "fn.cast": 500}
    statistics.end(chain, Cost(1000, 1000), costs(nodes, Cost(0, 0), Cost(20, 0)))
    assert seconds(statistics) == {"fn.flip": 2000, "fn.cast": 1000}
    assert [times.wall for times in statistics.operators()] == [1.5e-6, 1.5e-6], "no part of it was measured"


def test_executions_are_measured_rarely(graph: Graph) -> None:
    source, chain = step_of(graph.nodes[:1]), step_of(graph.nodes[1:])
    statistics = Statistics(graph, {}, [source, chain])
    runs = [number for number in range(300) if statistics.begin(chain) is not None]
    assert runs == [1, 2, 4, 8, 16, 32, 64, 128, 192, 256]
    assert not any(statistics.begin(source) for _ in range(300)), "a single operator doesn't need a separate clock"


def test_costs_of_operators_with_one_name_are_added() -> None:
    """The operators of several variants have the same names; their own counters stay as they are."""
    first = StepTimes("resize", 2, 1.0, 3.0, "gpu")
    sums = added([first, StepTimes("flip", 1, 0.5, 0.5), StepTimes("resize", 3, 2.0, 4.0, "gpu")])
    assert sums == [StepTimes("resize", 5, 3.0, 7.0, "gpu"), StepTimes("flip", 1, 0.5, 0.5)]
    assert first.batches == 2
