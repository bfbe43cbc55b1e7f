"""Calls that run on the executor of an earlier call of the same kind."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest

from dali_proxy.pipeline._dynamic import context
from dali_proxy.pipeline._dynamic.repeated_calls import RepeatedCall
from pipeline import dynamic
from pipeline.errors import OperatorError


@pytest.fixture
def repeated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the operators that run as repeated calls."""
    names: list[str] = []
    run = RepeatedCall.run

    def record(self: RepeatedCall, *arguments: object) -> object:
        names.append(self.executor.graph.nodes[self.node].operator)
        return run(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(RepeatedCall, "run", record)
    return names


def test_results_belong_to_the_operands_of_each_call(repeated: list[str]) -> None:
    with dynamic.EvalContext():
        for start in range(3):
            batch = dynamic.batch([np.arange(start, start + 3.0), np.zeros(2)])
            other = dynamic.batch([np.full(3, 2.0), np.ones(2)])
            total = batch * other + 0.5
            np.testing.assert_array_equal(total.tensors[0].numpy(), 2 * np.arange(start, start + 3.0) + 0.5)
    assert repeated.count("arithmetic") == 6


@pytest.mark.parametrize(("first", "second"), [(0.0, -0.0), (1, 1.0), (1, True)])
def test_constants_of_equal_value_and_other_kind_are_other_calls(first: float, second: float) -> None:
    zero = dynamic.tensor(np.array([-0.0], np.float32))
    with dynamic.EvalContext():
        results = [(zero + constant).numpy() for constant in (first, second)]
    expected = [np.float32(-0.0) + constant for constant in (first, second)]
    assert [math.copysign(1, result.item()) for result in results] == [math.copysign(1, each) for each in expected]


def test_random_numbers_differ_from_call_to_call_and_repeat_with_the_seed(repeated: list[str]) -> None:
    def draw() -> list[list[float]]:
        dynamic.random.set_seed(3)
        return [dynamic.random.uniform(batch_size=4).torch().tolist() for _ in range(3)]

    with dynamic.EvalContext():
        first, again = draw(), draw()
    assert first == again
    assert first[0] != first[1] != first[2]
    assert len(repeated) == 6


def test_error_of_a_later_call_names_its_own_line() -> None:
    small = dynamic.batch([np.zeros((4, 4, 3), np.uint8)], layout="HWC")
    large = dynamic.batch([np.zeros((9, 9, 3), np.uint8)], layout="HWC")
    with dynamic.EvalContext():
        dynamic.crop(large, crop=(6, 6))
        with pytest.raises(OperatorError, match="crop") as raised:
            dynamic.crop(small, crop=(6, 6))
    frame = inspect.currentframe()
    assert frame is not None
    assert f"{__file__}:{frame.f_lineno - 3}" in str(raised.value)


def test_calls_outlive_the_executors_that_a_context_drops(monkeypatch: pytest.MonkeyPatch, repeated: list[str]) -> None:
    monkeypatch.setattr(context, "_EXECUTORS", 2)
    batch = dynamic.batch([np.arange(4)])
    with dynamic.EvalContext():
        for _ in range(3):
            for number in range(4):
                assert (batch + number).tensors[0].numpy().tolist() == [number, number + 1, number + 2, number + 3]
    assert repeated.count("arithmetic") == 12
