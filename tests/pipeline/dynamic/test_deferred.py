"""Tests of deferred mode: calls use their data as it is when they are called."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from pipeline import dynamic

Call = Callable[[Any], dynamic.Tensor]


@pytest.mark.parametrize(
    "call",
    [
        lambda buffer: dynamic.tensor(buffer) * 1,
        lambda buffer: dynamic.as_tensor(buffer) * 1,
        lambda buffer: dynamic.as_tensor(torch.from_numpy(buffer)) * 1,
        lambda buffer: dynamic.as_tensor(dynamic.batch(buffer[None]) * 1),
        lambda buffer: dynamic.as_tensor(dynamic.as_batch([buffer]) * 1),
        lambda buffer: dynamic.as_tensor(dynamic.as_batch(buffer[None]).select([0]) * 1),
        lambda buffer: dynamic.as_tensor(dynamic.batch([[0] * 4]) + dynamic.as_tensor(buffer)),
        lambda buffer: dynamic.cast(buffer, dtype=dynamic.int32),
        lambda buffer: dynamic.cast(memoryview(buffer), dtype=dynamic.int32),
        lambda buffer: dynamic.reshape(dynamic.as_tensor(buffer), shape=[4]),
        lambda buffer: dynamic.zeros(shape=[4], dtype=dynamic.int32) + buffer,
        lambda buffer: dynamic.as_tensor(buffer)[0],
        lambda buffer: dynamic.brightness(np.ones((1, 1, 3), np.float32), brightness=buffer[:1].astype(np.float32)),
        lambda buffer: dynamic.lookup_table(np.zeros(1, np.uint8), keys=[0], values=buffer[:1]),
    ],
)
def test_reused_buffer_does_not_change_earlier_calls(call: Call) -> None:
    buffer, results = np.zeros(4, np.int32), []
    with dynamic.EvalMode.deferred:
        for number in range(4):
            buffer[:] = number
            results.append(call(buffer))
    assert [int(result.numpy().max()) for result in results] == [0, 1, 2, 3]


def test_reused_containers_do_not_change_earlier_calls() -> None:
    encoded, mean, shift, results = bytearray(1), [0.0], np.zeros((), np.float32), []
    image = np.zeros((1, 1, 1), np.float32)
    with dynamic.EvalMode.deferred:
        for number in range(3):
            encoded[0], mean[0] = number, -number
            shift[...] = number
            values = (
                dynamic.cast(encoded, dtype=dynamic.int32),
                dynamic.crop_mirror_normalize(image, mean=mean, std=[1.0]),
                dynamic.brightness(image, brightness_shift=shift, dtype=dynamic.float32),
            )
            results.append(values)
    assert [[int(value.numpy().max()) for value in values] for values in results] == [[0] * 3, [1] * 3, [2] * 3]


@pytest.mark.parametrize("export", [np.asarray, dynamic.Tensor.numpy, dynamic.Tensor.torch, np.from_dlpack])
@pytest.mark.parametrize("make", [lambda: dynamic.tensor([1, 2]), lambda: dynamic.tensor([0, 1]) + 1])
def test_write_into_memory_of_an_input_does_not_change_calls_that_are_pending(
    make: Callable[[], dynamic.Tensor], export: Callable[[Any], Any]
) -> None:
    with dynamic.EvalMode.deferred:
        source = make()
        pending = source + 1
        export(source)[:] = 100
        later = source + 1
        assert pending.numpy().tolist() == [2, 3]
        assert source.numpy().tolist() == [100, 100]
        assert later.numpy().tolist() == [101, 101]


def test_result_that_nothing_else_holds_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    with dynamic.EvalMode.deferred:
        first = (dynamic.tensor([1, 2]) + 1).evaluate()
        monkeypatch.setattr("dali_proxy.pipeline._dynamic.arrays.copied", None)
        assert (first * 2).numpy().tolist() == [4, 6]


def test_result_is_not_a_view_of_another_result() -> None:
    with dynamic.EvalMode.deferred:
        first = dynamic.tensor([0, 1, 2]) + 1
        view, pending = first[1:], first * 2
        view.numpy()[:] = 100
        assert pending.numpy().tolist() == [2, 4, 6]


def test_operator_reads_the_same_result_twice() -> None:
    with dynamic.EvalMode.deferred:
        pending = dynamic.tensor([1, 2]) + 1
        assert (pending * pending).numpy().tolist() == [4, 9]


def _count_python_calls(function: Callable[[], object]) -> int:
    count = 0

    def count_call(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(count_call)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def assert_chains_cost_linear_work(first: dynamic.Tensor, step: Call) -> None:
    """Check that evaluating a chain of four times the length makes about four times as many calls."""
    counts = []
    for length in (100, 400):
        with dynamic.EvalMode.deferred:
            value = first
            held = [value := step(value) for _ in range(length)]
            del held[: length // 2]
            counts.append(_count_python_calls(value.evaluate))
    assert counts[1] < 6 * counts[0]


@pytest.mark.parametrize(
    "step",
    [
        lambda x: x + 1,
        lambda x: dynamic.brightness(x, brightness=1.0),
        lambda x: dynamic.flip(x, horizontal=dynamic.random.coin_flip()),
        lambda x: dynamic.brightness(x, brightness=dynamic.cast(x, dtype=dynamic.float32)[0, 0, 0]),
    ],
)
def test_chain_takes_time_in_proportion_to_its_length(step: Call) -> None:
    assert_chains_cost_linear_work(dynamic.tensor(np.ones((2, 2, 3), np.uint8)), step)
