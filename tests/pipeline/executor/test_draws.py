"""The random numbers of a batch, from the graph alone: those that a run with the same graph draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline import Pipeline, fn, pipeline_def, types
from dali_proxy.pipeline._executor.draws import Draw, draws
from dali_proxy.pipeline._executor.executor import BatchRequest
from dali_proxy.pipeline._rng import BatchKey
from dali_proxy.pipeline.tensors.cpu import TensorListCPU

SIZE = 6


def drawn(pipe: Pipeline, key: BatchKey, seed: int = 3) -> list[Draw]:
    return list(draws(pipe._internals.graph, seed, key, SIZE))


def run(pipe: Pipeline, key: BatchKey, **inputs: Any) -> list[list[Any]]:
    pipe.build()
    executor = pipe._internals.executor
    assert executor is not None
    fed = {name: TensorListCPU.from_dense(value, "") for name, value in inputs.items()}
    return [list(map(np.array, output.samples)) for output in executor.run(BatchRequest(SIZE, fed, key=key))]


@pytest.mark.parametrize("key", [BatchKey(2, 5), BatchKey(0, 1, 1), BatchKey(1, 3, 0, 77)])
def test_numbers_are_those_of_the_run(key: BatchKey) -> None:
    @pipeline_def(batch_size=SIZE, num_threads=2, device_id=None, seed=3)
    def augmented() -> Any:
        x = fn.external_source(name="x")
        noise = fn.noise.gaussian(x)
        low = fn.random.uniform(range=(0.0, 1.0))
        nested = fn.random.uniform(range=fn.stack(low, low + 1.0))
        vector = fn.random.normal(shape=(3,))
        own = fn.random.choice(5, seed=9)
        flipped = fn.random.coin_flip(name="mirror")
        return x + low, noise, low, nested, vector, own, flipped, fn.random.uniform(x)

    pipe = augmented()
    expected = run(pipe, key, x=np.ones((SIZE, 4), np.float32))
    found = drawn(pipe, key)
    shown = [each for each in found if each.numbers is not None]
    assert [each.view for each in found] == [key.view] * len(found)
    assert len(shown) == 5
    for numbers in expected[2:7]:
        assert any(
            all(np.array_equal(*pair) for pair in zip(numbers, each.numbers or (), strict=True)) for each in shown
        )
    hidden = [each.operator for each in found if each.numbers is None]
    assert sorted(hidden) == ["fn.noise.gaussian", "fn.random.uniform"]
    assert "fn.random.coin_flip (name='mirror')" in [each.operator for each in shown]
    assert all(each.line.startswith("test_draws.py:") for each in found)


def test_samples_of_other_branches_have_no_numbers() -> None:
    @pipeline_def(batch_size=SIZE, num_threads=1, device_id=None, seed=3, enable_conditionals=True)
    def branched() -> Any:
        x = fn.external_source(name="x")
        taken = fn.random.coin_flip(dtype=types.BOOL)
        if taken:
            low = fn.random.uniform(range=(1.0, 2.0))
            y = fn.random.uniform(range=fn.stack(low, low + 1.0))
        else:
            y = fn.random.uniform(range=(-2.0, -1.0))
        if fn.random.coin_flip(probability=0.0, dtype=types.BOOL):  # no sample takes it
            y = y + fn.random.uniform(range=fn.stack(y, y + 1.0))
        return x, taken, y

    pipe = branched()
    key = BatchKey(1, 2)
    expected = run(pipe, key, x=np.ones(SIZE, np.float32))
    found = drawn(pipe, key)
    assert all(each.numbers is not None for each in found)
    coin = next(each for each in found if "coin_flip" in each.operator)
    taken = [bool(each) for each in expected[1]]
    assert coin.numbers == tuple(expected[1])
    assert len(set(taken)) == 2
    uniform = [each.numbers or () for each in found if "uniform" in each.operator]
    _, inner, other, nobody = uniform  # operators with constant arguments draw for all samples
    assert [number is None for number in inner] == [not each for each in taken]
    assert [a if each else b for a, b, each in zip(inner, other, taken, strict=True)] == expected[2]
    assert nobody == (None,) * SIZE
