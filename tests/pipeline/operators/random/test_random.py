"""Random numbers: distributions with fixed seeds; shapes, dtypes and errors compared with NVIDIA DALI.

Statistics are compared with what one correct generator in about a thousand exceeds; the seeds are fixed, so the tests
always give the same answer.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pipeline import Pipeline, fn, types
from pipeline.errors import PipelineError
from tests import host_cupy
from tests.pipeline.kernels import emulator
from tests.pipeline.operators.both import Array, compare, refused_by_both, run_dali, run_ours

DRAWS = 20000
#: Kolmogorov's statistic times sqrt(n) exceeds this with probability 0.001.
KOLMOGOROV = 1.95


def draw(describe: Callable[[], Any], seed: int = 1, batch_size: int = 4) -> Array:
    with Pipeline(batch_size=batch_size, num_threads=1, device_id=None, seed=seed) as pipe:
        pipe.set_outputs(describe())
    try:
        return np.array(pipe.run()[0].as_array())
    finally:
        pipe.close()


def kolmogorov(values: Array, distribution: Callable[[float], float]) -> float:
    """Return Kolmogorov's statistic of values for a continuous distribution, times sqrt(n)."""
    ordered = np.sort(values.ravel().astype(np.float64))
    expected = np.array([distribution(value) for value in ordered.tolist()])
    steps = np.arange(len(ordered) + 1) / len(ordered)
    return float(max(np.abs(expected - steps[1:]).max(), np.abs(expected - steps[:-1]).max()) * math.sqrt(len(ordered)))


def chi_squared(values: Array, expected: dict[Any, float]) -> float:
    """Return the distance of counts from the expected ones, in standard deviations of the statistic."""
    found = dict(zip(*(part.tolist() for part in np.unique(values, return_counts=True)), strict=True))
    assert set(found) <= {value for value, odds in expected.items() if odds}
    statistic = sum(
        (found.get(value, 0) - values.size * odds) ** 2 / (values.size * odds)
        for value, odds in expected.items()
        if odds
    )
    freedom = max(1, len(expected) - 1)
    return (statistic - freedom) / math.sqrt(2 * freedom)


def normal(mean: float, deviation: float) -> Callable[[float], float]:
    return lambda x: 0.5 * (1 + math.erf((x - mean) / deviation / math.sqrt(2)))


def beta(a: int, b: int) -> Callable[[float], float]:
    n = a + b - 1
    return lambda x: sum(math.comb(n, k) * x**k * (1 - x) ** (n - k) for k in range(a, n + 1))


@pytest.mark.parametrize(
    ("describe", "distribution"),
    [
        (lambda: fn.random.uniform(shape=DRAWS // 4), lambda x: (x + 1) / 2),
        (lambda: fn.random.uniform(range=[3, 11], shape=[5, DRAWS // 20]), lambda x: (x - 3) / 8),
        (lambda: fn.random.uniform(range=[0, 1], dtype=types.FLOAT64, shape=DRAWS // 4), lambda x: x),
        (lambda: fn.random.normal(shape=DRAWS // 4), normal(0, 1)),
        (lambda: fn.random.normal(mean=-5.0, stddev=0.25, shape=DRAWS // 4, dtype=types.FLOAT64), normal(-5, 0.25)),
        (lambda: fn.random.beta(shape=DRAWS // 4), lambda x: x),
        (lambda: fn.random.beta(alpha=2.0, beta=3.0, shape=DRAWS // 4), beta(2, 3)),
        (lambda: fn.random.beta(alpha=0.5, beta=0.5, shape=DRAWS // 4), lambda x: 2 / math.pi * math.asin(x**0.5)),
    ],
)
def test_continuous_distributions(describe: Any, distribution: Any) -> None:
    values = draw(describe)
    assert values.size == DRAWS
    assert kolmogorov(values, distribution) < KOLMOGOROV
    assert len(np.unique(values)) > 0.98 * DRAWS


ROUNDED = {number: normal(0, 0.5)(number + 0.5) - normal(0, 0.5)(number - 0.5) for number in range(-2, 3)}
THIRDS = {1.5: 1 / 3, 2.5: 1 / 3, -4.0: 1 / 3}


@pytest.mark.parametrize(
    ("describe", "expected"),
    [
        (lambda: fn.random.uniform(values=[1.5, 2.5, -4], shape=DRAWS // 4), THIRDS),
        (
            lambda: fn.random.uniform(range=[0, 3], dtype=types.INT32, shape=DRAWS // 4),
            {0: 1 / 6, 1: 1 / 3, 2: 1 / 3, 3: 1 / 6},
        ),
        (lambda: fn.random.uniform(values=[1.5, 2.4], dtype=types.UINT8, shape=DRAWS // 4), {2: 1.0}),
        (
            lambda: fn.random.normal(stddev=0.5, dtype=types.INT8, shape=DRAWS // 4),
            ROUNDED,
        ),
        (lambda: fn.random.coin_flip(shape=DRAWS // 4), {0: 0.5, 1: 0.5}),
        (lambda: fn.random.coin_flip(probability=0.125, dtype=types.UINT8, shape=DRAWS // 4), {0: 0.875, 1: 0.125}),
        (lambda: fn.random.coin_flip(probability=2.0, dtype=types.BOOL, shape=DRAWS // 4), {True: 1.0}),
        (lambda: fn.random.choice(5, shape=DRAWS // 4), dict.fromkeys(range(5), 0.2)),
        (lambda: fn.random.choice([1.5, 2.5, -4.0], shape=DRAWS // 4), THIRDS),
        (lambda: fn.random.choice(4, p=[0.5, 0, 0.25, 0.25], shape=DRAWS // 4), {0: 0.5, 1: 0, 2: 0.25, 3: 0.25}),
    ],
)
def test_discrete_distributions(describe: Any, expected: Any) -> None:
    values = draw(describe)
    assert values.size == DRAWS
    assert chi_squared(values, expected) < 4


def test_neighbours_are_independent() -> None:
    values = draw(lambda: fn.random.uniform(shape=DRAWS // 4), seed=3)
    for left, right in ((values[:, :-1], values[:, 1:]), (values[:-1], values[1:])):
        assert abs(np.corrcoef(left.ravel(), right.ravel())[0, 1]) < 3.3 / math.sqrt(left.size)


@pytest.mark.parametrize("operator", ["uniform", "normal", "beta", "coin_flip"])
def test_sample_does_not_depend_on_the_size_of_its_batch(operator: str) -> None:
    describe = lambda: getattr(fn.random, operator)(shape=[3, 2])  # noqa: E731
    assert np.array_equal(draw(describe, batch_size=3), draw(describe, batch_size=7)[:3])
    assert not np.array_equal(draw(describe, seed=1), draw(describe, seed=2))


@pytest.mark.parametrize("operator", ["uniform", "normal", "beta", "coin_flip"])
def test_sample_does_not_depend_on_the_shapes_of_others(operator: str) -> None:
    numbers = getattr(fn.random, operator)
    for graph in (lambda fn, types, x: numbers(shape=x), lambda fn, types, x: numbers(fn.zeros(shape=x))):
        drawn = [run_ours(graph, [np.array(shape, np.int32) for shape in ((rows, 3), (5, 2))]) for rows in (1, 4)]
        (_, first), (_, second) = (outputs[0].samples for outputs in drawn)
        assert np.array_equal(first, second)
        assert len(np.unique(first)) == (2 if operator == "coin_flip" else 10)


LIKE = [np.zeros(shape, np.int16) for shape in ((1, 2), (3, 4), (2, 2), (0, 1))]
ROWS = [np.array(row, np.float32) for row in ([1, 2], [3], [4, 5, 6], [7])]
SHAPES = [np.array(row, np.int32) for row in ([1, 2], [3, 4], [2, 2], [0, 1])]


@pytest.mark.parity
@pytest.mark.parametrize(
    ("graph", "feed"),
    [
        (lambda fn, types, x: fn.random.uniform(x), LIKE),
        (lambda fn, types, x: fn.random.normal(x, dtype=types.INT16), LIKE),
        (lambda fn, types, x: fn.random.beta(x, dtype=types.FLOAT64), LIKE),
        (lambda fn, types, x: fn.random.coin_flip(x, dtype=types.BOOL), LIKE),
        (lambda fn, types, x: fn.random.choice(7, x), LIKE),
        (lambda fn, types, x: fn.random.uniform(shape=x), SHAPES),
        (lambda fn, types, x: fn.random.normal(shape=x), SHAPES),
        (lambda fn, types, x: fn.random.choice(x), ROWS),
        (lambda fn, types, x: fn.random.choice(x, shape=[2, 3]), ROWS),
        (lambda fn, types, x: fn.random.choice(x, shape=2), LIKE[:3]),
        (lambda fn, types, x: fn.random.choice(x[0], shape=2), [row + np.int32(3) for row in SHAPES]),
    ],
)
def test_shapes_and_dtypes_are_those_of_dali(graph: Any, feed: list[Array]) -> None:
    both = lambda fn, types, x: (graph(fn, types, x), x)  # noqa: E731
    (ours, _), (theirs, _) = run_ours(both, feed), run_dali(both, feed)
    assert [sample.shape for sample in ours.samples] == [sample.shape for sample in theirs.samples]
    assert ours.samples[0].dtype == theirs.samples[0].dtype
    assert ours.layout == theirs.layout


@pytest.mark.parity
def test_certain_draws_equal_dali() -> None:
    probabilities = [np.array(number, np.float32) for number in (0, 1, 1, 0)]
    compare(lambda fn, types, p: fn.random.coin_flip(probability=p, shape=3), probabilities)
    compare(lambda fn, types, m: fn.random.normal(mean=m + 0.5, stddev=0.0, dtype=types.UINT8), probabilities)
    compare(lambda fn, types, m: fn.random.normal(mean=m * 300, stddev=0.0, dtype=types.UINT8), probabilities)
    odds = [np.array(row, np.float32) for row in ([0, 1], [1, 0], [0, 1], [1, 0])]
    compare(lambda fn, types, p: fn.random.choice([5, 9], p=p, shape=[2, 2]), odds)


@pytest.mark.parity
@pytest.mark.parametrize(
    ("graph", "match"),
    [
        (lambda fn, types, x: fn.random.uniform(range=[5, 5]), "smaller than the second"),
        (lambda fn, types, x: fn.random.uniform(range=[1, 2, 3]), "needs 2 values"),
        (lambda fn, types, x: fn.random.uniform(x, shape=3), "incompatible with providing a shape-like input"),
        (lambda fn, types, x: fn.random.uniform(shape=[-1]), "not be negative"),
        (lambda fn, types, x: fn.random.beta(alpha=0.0), "must be positive, not 0"),
        (lambda fn, types, x: fn.random.beta(dtype=types.UINT8), "must be one of FLOAT, FLOAT64"),
        (lambda fn, types, x: fn.random.choice(0), "no element"),
        (lambda fn, types, x: fn.random.choice(2.5), "must be an integer"),
        (lambda fn, types, x: fn.random.choice([1, 2], p=[0.5, 1.0]), "with sum 1"),
        (lambda fn, types, x: fn.random.choice(3, p=[1.0, -1.0, 1.0]), "with sum 1"),
        (lambda fn, types, x: fn.random.choice(2, p=[0.2, 0.3, 0.5]), "needs 2 values, but has 3"),
    ],
)
def test_bad_calls_are_refused(graph: Any, match: str) -> None:
    refused_by_both(lambda fn, types, x: (graph(fn, types, x), x), LIKE, match=match)


@pytest.mark.parametrize("where", ["host", pytest.param("gpu", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("operator", ["uniform", "normal", "coin_flip"])
def test_gpu_has_the_numbers_of_the_cpu(operator: str, where: str) -> None:
    if where == "host" and emulator.COMPILER is None:
        pytest.skip("needs a C++ compiler")

    def graph(device: str) -> Any:
        def describe(fn: Any, types: Any, x: Any) -> Any:
            on_gpu = x.gpu() if device == "gpu" else x
            draw = getattr(fn.random, operator)
            like = draw(on_gpu, seed=5, device=device, dtype=types.INT32)
            return like, draw(shape=[2, 3], seed=6, device=device)

        return describe

    with host_cupy.installed() if where == "host" else contextlib.nullcontext():
        made = [run_ours(graph(device), LIKE, device_id=0) for device in ("cpu", "gpu")]
    for here, there in zip(*made, strict=True):
        for ours, other in zip(here.samples, there.samples, strict=True):
            assert np.array_equal(ours, other)


@pytest.mark.parametrize("device", ["cpu", "host", pytest.param("gpu", marks=pytest.mark.gpu)])
def test_normal_numbers_are_those_of_gaussian_noise(device: str) -> None:
    if device == "host" and emulator.COMPILER is None:
        pytest.skip("needs a C++ compiler")

    def graph(fn: Any, types: Any, x: Any) -> Any:
        data = fn.cast(x if device == "cpu" else x.gpu(), dtype=types.FLOAT)
        options = {"mean": fn.random.uniform(range=(-5, 5)), "stddev": 3.0, "seed": 12}
        return data, fn.noise.gaussian(data, **options), fn.random.normal(data, **options)

    surroundings = host_cupy.installed() if device == "host" else contextlib.nullcontext()
    with surroundings:
        data, noisy, normal = run_ours(graph, LIKE, device_id=None if device == "cpu" else 0)
    for before, after, drawn in zip(data.samples, noisy.samples, normal.samples, strict=True):
        np.testing.assert_allclose(before + drawn, after, atol=1e-4)
        assert np.unique(drawn).size == drawn.size


def test_random_state_takes_the_place_of_the_seed() -> None:
    def describe(seed: int) -> Any:
        states = [[np.full(6, number, np.uint32)] * 2 for number in (1, 2, 1)]
        with Pipeline(batch_size=2, num_threads=1, device_id=None, seed=seed) as pipe:
            state = fn.external_source(states, cycle=True)
            pipe.set_outputs(*(fn.random.uniform(shape=[9], _random_state=state) for _ in range(2)))
        return pipe

    batches = []
    for seed in (1, 2):
        with contextlib.closing(describe(seed)) as pipe:
            batches += [[output.as_array().tolist() for output in pipe.run()] for _ in range(3)]
    assert batches[0] == batches[2] == batches[3]
    assert batches[0] != batches[1]
    assert batches[0][0] == batches[0][1]
    with pytest.raises(PipelineError, match='Argument "_random_state" is not defined'):
        fn.flip(np.zeros((2, 2, 3)), _random_state=[1])
