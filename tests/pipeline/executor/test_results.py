"""Operators return correct data, or an error that names the operator: never uninitialized memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._declaration import registry
from dali_proxy.pipeline._declaration.registry import implements, register
from dali_proxy.pipeline._declaration.schema import Input, OperatorSchema
from dali_proxy.pipeline._executor import BatchRequest, BatchResult
from dali_proxy.pipeline._graph import apply_operator
from dali_proxy.pipeline._operator_api.operator import BatchOperator, OutputSpec, SampleOperator
from pipeline import Pipeline, fn
from pipeline.errors import OperatorError
from pipeline.tensors import TensorListCPU
from tests.waiting import PATIENCE_S

Run = Callable[[np.ndarray[Any, Any], Any], Any]
SPEC = OutputSpec("", (2,), np.dtype(np.int32))
DATA = np.array([[1, 2], [3, 4], [5, 6]], np.int32)


@pytest.fixture(autouse=True)
def own_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_SCHEMAS", dict(registry._SCHEMAS))
    monkeypatch.setattr(registry, "_IMPLEMENTATIONS", dict(registry._IMPLEMENTATIONS))


def declared(outputs: int = 1) -> OperatorSchema:
    return register(OperatorSchema("own", "Of a user.", inputs=(Input("data", "Data."),), outputs=lambda _: outputs))


def of_samples(run: Run, *specs: OutputSpec, outputs: int = 1) -> None:
    """Declare an operator that computes samples: it calls `run` with the input and `out`."""

    @implements(declared(outputs), "cpu")
    class Own(SampleOperator[None]):
        def start(self, batch: Any, inputs: Sequence[OutputSpec]) -> Any:
            return None, list(specs)

        def run(self, state: None, sample: int, inputs: Sequence[Any], out: Any) -> Any:
            return run(inputs[0], out)


def of_batches(run: Callable[[Any], Any], outputs: int = 1) -> None:
    @implements(declared(outputs), "cpu")
    class Own(BatchOperator):
        def run(self, batch: Any, inputs: Sequence[Any]) -> Any:
            return run(inputs[0])


@pytest.fixture
def pipes() -> Iterator[Callable[[bool], Pipeline]]:
    """Yield a function that creates pipelines of the operator, alone or followed by another one."""
    made: list[Pipeline] = []

    def make(inner: bool) -> Pipeline:
        with Pipeline(batch_size=3, num_threads=2, device_id=None) as pipe:
            own: Any = apply_operator("own", (fn.external_source(name="x"),), {})
            pipe.set_outputs(*(output + 0 if inner else output for output in np.atleast_1d(np.array(own, object))))
        made.append(pipe)
        return pipe

    yield make
    for pipe in made:
        pipe.close()


inner = pytest.mark.parametrize("inner", [False, True], ids=["result", "inner"])


@inner
@pytest.mark.parametrize(
    "run",
    [
        lambda data, out: data * 10,
        lambda data, out: (data * 10,),
        lambda data, out: np.multiply(data, 10, out=out)[...] if out is not None else data * 10,
    ],
)
def test_operator_that_ignores_out_gives_its_return_value(pipes: Any, inner: bool, run: Run) -> None:
    of_samples(run, SPEC)
    for _ in range(2):
        assert np.array_equal(pipes(inner).run(x=DATA)[0].as_array(), DATA * 10)


@inner
@pytest.mark.parametrize("known", [True, False], ids=["known", "dtype"])
@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda data, out: None, "run() returned NoneType, not a NumPy array"),
        (lambda data, out: [1, 2], "run() returned list, not a NumPy array"),
        (lambda data, out: data.astype(np.float32), "run() returned float32, but its start() described int32"),
        (lambda data, out: (data, data), "run() returned 2 outputs, but it has 1"),
        (lambda data, out: data[:1], "run() returned the shape (1,), but its start() described (2,)"),
    ],
)
def test_operator_with_an_invalid_return_value_is_an_error(
    pipes: Any, inner: bool, known: bool, run: Run, message: str
) -> None:
    if "shape" in message and not known:
        pytest.skip("any shape will do")
    of_samples(run, SPEC if known else OutputSpec("", None, np.dtype(np.int32)))
    with pytest.raises(OperatorError) as caught:
        pipes(inner).run(x=DATA)
    assert message in str(caught.value)
    assert str(caught.value).startswith("fn.own failed for sample 0")
    assert "test_results.py" in str(caught.value)


@inner
def test_outputs_of_an_operator_with_several_are_checked_too(pipes: Any, inner: bool) -> None:
    of_samples(lambda data, out: (data, data[:1]), SPEC, SPEC, outputs=2)
    with pytest.raises(OperatorError, match=r"returned the shape \(1,\)"):
        pipes(inner).run(x=DATA)


def test_start_that_describes_too_few_outputs(pipes: Any) -> None:
    of_samples(lambda data, out: (data, data), SPEC, outputs=2)
    with pytest.raises(
        OperatorError, match=r"^fn.own failed: the operator's start\(\) described 1 outputs, but it has 2"
    ):
        pipes(False).run(x=DATA)


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda data: None, "run() returned NoneType, but it has 1"),
        (lambda data: [], "run() returned 0 outputs, but it has 1"),
        (lambda data: [data, data], "run() returned 2 outputs, but it has 1"),
        (lambda data: [DATA], "run() returned ndarray as output 0, not a batch"),
        (lambda data: [TensorListCPU(DATA[:2])], "run() returned 2 samples as output 0, but the batch has 3"),
    ],
)
def test_batch_operator_with_an_invalid_return_value_is_an_error(pipes: Any, run: Any, message: str) -> None:
    of_batches(run)
    with pytest.raises(OperatorError, match=r"^fn.own failed") as caught:
        pipes(False).run(x=DATA)
    assert message in str(caught.value)


@pytest.mark.parametrize("where", ["start", "run", "batch"])
def test_operator_that_exits_costs_its_batch(pipes: Any, where: str) -> None:
    left: list[int] = []

    def leave(*_: Any) -> Any:
        if not left:
            left.append(1)
            raise SystemExit(3)

    if where == "batch":
        of_batches(lambda data: leave() or [data])
    elif where == "run":
        of_samples(lambda data, out: leave() or data, SPEC)
    else:
        of_samples(lambda data, out: data, SPEC)
        kind = registry._IMPLEMENTATIONS["own", "cpu"]
        start = kind.start
        kind.start = lambda *arguments: leave() or start(*arguments)
    pipe = pipes(False)
    with pytest.raises(OperatorError, match="SystemExit: 3") as caught:
        pipe.run(x=DATA)
    assert isinstance(caught.value.__cause__, SystemExit)
    assert np.array_equal(pipe.run(x=DATA)[0].as_array(), DATA)


def test_opened_resources_are_closed_when_a_later_step_fails(pipes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if an operator can't be closed: the fixture that looks for threads would find those of the others."""
    closed: list[str] = []
    of_batches(lambda data: [data])
    kind = registry._IMPLEMENTATIONS["own", "cpu"]

    def close(self: Any) -> None:
        closed.append(self.node.name)
        raise OSError("it can't be closed")

    kind.close = close
    start, started = threading.Thread.start, []

    def start_few(thread: threading.Thread) -> None:
        if len(started) == 3:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    pipe = pipes(False)
    monkeypatch.setattr(threading.Thread, "start", start_few)  # simulates the system's limit
    with pytest.raises(OSError, match="can't be closed"):
        pipe.build()
    assert len(closed) == 1
    assert len(started) == 3
    assert not any(thread.is_alive() for thread in started)


def test_batches_that_were_submitted_all_get_an_answer(pipes: Any) -> None:
    of_batches(lambda data: (_ for _ in ()).throw(GeneratorExit))
    pipe = pipes(False)
    results: list[BatchResult] = []
    done = threading.Semaphore(0)
    for _ in range(5):
        request = BatchRequest(3, {"x": TensorListCPU(DATA)})
        pipe._internals.runner.submit(request, lambda result: (results.append(result), done.release()))
    assert all(done.acquire(timeout=PATIENCE_S) for _ in range(5))
    assert all(isinstance(result.error, OperatorError) for result in results)
