"""User code that exits, and Ctrl-C: each fails one batch, and the next batch arrives."""

from __future__ import annotations

import asyncio
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from dali_proxy import torch_python_function
from dali_proxy.pipeline._executor import BatchRequest, BatchResult
from dali_proxy.pipeline._rng import BatchKey
from pipeline import Pipeline, errors, fn
from pipeline.tensors import TensorListCPU
from pipeline.types import SampleInfo
from tests.pipeline.external_source.sources import batch, pipe_of, run, values
from tests.waiting import PATIENCE_S, soon


class Leaving(BaseException):
    """An exit that a user's library raises."""


EXITS = (SystemExit(3), KeyboardInterrupt("raised"), asyncio.CancelledError(), GeneratorExit("closed"), Leaving("left"))
exits = pytest.mark.parametrize("exit_", EXITS, ids=lambda error: type(error).__name__)


def checked(error: errors.OperatorError, cause: BaseException) -> None:
    """Check that an error contains what a user must know."""
    assert type(error.__cause__) is type(cause)
    assert f"{type(cause).__name__}: {cause}" in str(error)
    assert f"raised at {__file__}:" in str(error), "the line of the function"
    assert error.location, "the line of the pipeline"
    assert not isinstance(error, type(cause))


@exits
@pytest.mark.parametrize(
    ("operator", "arguments"),
    [
        (fn.python_function, {}),
        (fn.python_function, {"batch_processing": True}),
        (fn.dl_tensor_python_function, {"batch_processing": False}),
        (torch_python_function, {}),
        (torch_python_function, {"batch_processing": True}),
    ],
)
def test_function_that_exits_costs_its_batch(
    exit_: BaseException, operator: Callable[..., Any], arguments: dict[str, Any]
) -> None:
    calls: list[int] = []

    def function(sample_in: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise exit_
        return sample_in

    with Pipeline(batch_size=3, num_threads=1, device_id=None) as pipe:
        pipe.set_outputs(operator(fn.external_source(name="x"), function=function, **arguments))
    batched = arguments.get("batch_processing", False)
    if batched:
        assert values(pipe.run(x=batch(1))) == [[1, 1, 1]]
    with soon(), pytest.raises(errors.OperatorError) as caught:
        pipe.run(x=batch(2))
    checked(caught.value, exit_)
    assert [failure.sample for failure in caught.value.failures] == ([] if batched else [1])
    with soon():
        assert values(pipe.run(x=batch(3))) == [[3, 3, 3]]
    pipe.close()


def result_of(pipe: Pipeline, request: BatchRequest) -> BatchResult:
    """Submit a batch as a server does, and wait for its result."""
    results: queue.SimpleQueue[BatchResult] = queue.SimpleQueue()
    pipe._internals.runner.submit(request, results.put)
    return results.get(timeout=PATIENCE_S)


def of_batches(exit_: BaseException) -> Any:
    def source(iteration: int) -> Any:
        if iteration == 1:
            raise exit_
        return batch(iteration)

    return source, {}


def of_samples(exit_: BaseException) -> Any:
    def source(info: SampleInfo) -> Any:
        if info.iteration == 1 and info.idx_in_batch == 2:
            raise exit_
        return np.int32([info.iteration])

    return source, {"batch": False}


def generator(exit_: BaseException) -> Any:
    def source() -> Iterator[Any]:
        yield batch(0)
        if not calls:
            calls.append(1)
            raise exit_
        yield batch(2)

    calls: list[int] = []
    return source, {"cycle": "quiet"}


class Refusing:
    """Data that exits when it is read."""

    def __init__(self, exit_: BaseException) -> None:
        self.exit = exit_

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise self.exit


def of_data(exit_: BaseException) -> Any:
    return lambda iteration: Refusing(exit_) if iteration == 1 else batch(iteration), {}


sources = pytest.mark.parametrize("make", [of_batches, of_samples, generator, of_data])


@exits
@sources
def test_source_that_exits_costs_its_batch(exit_: BaseException, make: Any) -> None:
    source, arguments = make(exit_)
    pipe = pipe_of(source, **arguments)
    assert run(pipe, 1) == [[[0, 0, 0]]]
    with pytest.raises(errors.SourceError) as caught:
        pipe.run()
    checked(caught.value, exit_)
    assert [failure.sample for failure in caught.value.failures] == ([2] if make is of_samples else [])
    assert run(pipe, 1)[0] in ([[2, 2, 2]], [[0, 0, 0]] if make is generator else None)
    pipe.close()


@exits
@sources
def test_source_that_exits_on_the_thread_of_sources_costs_its_batch(exit_: BaseException, make: Any) -> None:
    source, arguments = make(exit_)
    pipe = pipe_of(source, **arguments)
    keys = [BatchKey(0, iteration) for iteration in range(3)]
    first, failed, last = [result_of(pipe, BatchRequest(3, key=key)) for key in keys]
    assert first.error is last.error is None
    assert isinstance(failed.error, errors.SourceError)
    checked(failed.error, exit_)
    pipe.close()


def test_callbacks_that_exit_end_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", lambda arguments: reported.append(arguments.exc_value.__cause__))
    for source in (None, lambda: batch(1)):
        pipe = pipe_of(source, name="x")
        inputs = {"x": TensorListCPU(batch(1))} if source is None else {}
        pipe._internals.runner.submit(BatchRequest(3, inputs, on_inputs_read=sys.exit), sys.exit)
        assert result_of(pipe, BatchRequest(3, inputs)).error is None
        pipe.close()
    assert [type(error) for error in reported] == [SystemExit] * 4


@pytest.mark.parametrize("how", ["interrupt", "handler"])
def test_signal_while_a_source_is_read_reaches_the_caller(how: str) -> None:
    """The other source and the fed input stay in step."""
    number, expected = (signal.SIGINT, KeyboardInterrupt) if how == "interrupt" else (signal.SIGTERM, SystemExit)

    def interrupted(iteration: int) -> Any:
        if iteration == 1:
            signal.raise_signal(number)
        return batch(iteration)

    with Pipeline(batch_size=3, num_threads=1, device_id=None, prefetch_queue_depth=1) as pipe:
        outputs = fn.external_source(interrupted), fn.external_source(iter([batch(n) for n in range(9)]))
        pipe.set_outputs(*outputs, fn.external_source(name="x"))
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit("terminated"))
    try:
        assert values(pipe.run(x=batch(0))) == [[0, 0, 0]] * 3
        with pytest.raises(expected):
            pipe.run(x=batch(1))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert values(pipe.run(x=batch(2))) == [[2, 2, 2]] * 3
    pipe.close()


@pytest.mark.parametrize("exec_async", [True, False])
def test_ctrl_c_while_a_batch_is_awaited_costs_that_batch(exec_async: bool) -> None:
    resumed = threading.Event()

    def function(sample: Any) -> Any:
        if sample[0] == 1 and not resumed.is_set():
            os.kill(os.getpid(), signal.SIGINT)
            assert resumed.wait(PATIENCE_S)
        return sample

    with Pipeline(batch_size=3, num_threads=1, device_id=None, exec_async=exec_async) as pipe:
        pipe.set_outputs(fn.python_function(fn.external_source(name="x"), function=function))
    with soon(), pytest.raises(KeyboardInterrupt):
        pipe.run(x=batch(1))
    resumed.set()
    for number in (2, 3):
        assert values(pipe.run(x=batch(number))) == [[number] * 3]
    pipe.close()


def test_inputs_stay_in_step_when_one_of_them_is_refused() -> None:
    with Pipeline(batch_size=3, num_threads=1, device_id=None) as pipe:
        pipe.set_outputs(fn.external_source(name="x"), fn.external_source(name="y", ndim=1))
    with pytest.raises(errors.InputError, match="dimensions"):
        pipe.run(x=batch(1), y=np.zeros((3, 2, 2)))
    assert values(pipe.run(x=batch(2), y=batch(2))) == [[2, 2, 2]] * 2
    pipe.close()


@pytest.mark.parametrize("error", [SystemExit(3), ZeroDivisionError("on purpose")])
def test_iter_setup_that_fails_half_way_costs_its_batch(error: BaseException) -> None:
    class Feeding(Pipeline):
        number = 0

        def __init__(self) -> None:
            super().__init__(batch_size=3, num_threads=1, device_id=None)

        def define_graph(self) -> Any:
            return fn.external_source(name="x"), fn.external_source(name="y")

        def iter_setup(self) -> None:
            self.number += 1
            self.feed_input("x", batch(self.number))
            if self.number == 2:
                raise error
            self.feed_input("y", batch(self.number))

    pipe = Feeding()
    assert values(pipe.run()) == [[1, 1, 1]] * 2
    with pytest.raises(errors.PipelineError if isinstance(error, SystemExit) else ZeroDivisionError) as caught:
        pipe.run()
    assert error in (caught.value, caught.value.__cause__)
    assert values(pipe.run()) == [[3, 3, 3]] * 2
    pipe.close()


def test_errors_name_the_line_of_the_function_that_the_user_wrote() -> None:
    def deeper(sample: Any) -> Any:
        return np.linalg.inv(sample)  # raises in NumPy

    with Pipeline(batch_size=1, num_threads=1, device_id=None) as pipe:
        pipe.set_outputs(fn.python_function(fn.external_source(name="x"), function=lambda sample: deeper(sample)))
    with pytest.raises(errors.OperatorError, match=r"raised at .*test_exits.py:\d+ in deeper: return np.linalg.inv"):
        pipe.run(x=np.zeros((1, 2, 3)))
    pipe.close()


def test_error_without_text_is_reported() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("no words")

    def mute(sample_in: Any) -> Any:
        raise Mute

    pipe = pipe_of(mute)
    with pytest.raises(errors.SourceError, match=r"Mute: \(its __str__ raised ValueError\)\n  raised at "):
        pipe.run()
    pipe.close()
    with Pipeline(batch_size=3, num_threads=1, device_id=None) as pipe:
        pipe.set_outputs(fn.python_function(fn.external_source(name="x"), function=mute))
    with pytest.raises(errors.OperatorError, match=r"Mute: \(its __str__ raised ValueError\)\n  raised at "):
        pipe.run(x=batch(1))
    pipe.close()
