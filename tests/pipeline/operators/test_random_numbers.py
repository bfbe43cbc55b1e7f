"""Distributions of random numbers: exact, up to chance of one in a million."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.pipeline.operators.both import Graph, run_ours

COUNT = 20_000


def draws(graph: Graph) -> Any:
    (made,) = run_ours(graph)
    return made.samples[0]


def assert_frequencies(values: Any, expected: dict[float, float]) -> None:
    """Assert that values occur with these probabilities: each within five standard deviations."""
    assert set(np.unique(values).tolist()) <= set(expected)
    for value, probability in expected.items():
        found = np.count_nonzero(values == value)
        assert abs(found - COUNT * probability) <= 5 * math.sqrt(COUNT * probability * (1 - probability)), value


def test_uniform_reals_fill_the_range_evenly() -> None:
    values = draws(lambda fn, _: fn.random.uniform(range=[2, 4], shape=COUNT))
    assert values.dtype == np.float32
    assert 2 <= values.min() <= values.max() < 4
    assert_frequencies(np.floor((values - 2) * 5), dict.fromkeys(range(10), 0.1))


def test_uniform_integers_are_rounded_reals() -> None:
    values = draws(lambda fn, types: fn.random.uniform(range=[0, 3], shape=COUNT, dtype=types.INT32))
    assert_frequencies(values, {0: 1 / 6, 1: 1 / 3, 2: 1 / 3, 3: 1 / 6})


def test_uniform_values_are_equally_likely() -> None:
    values = draws(lambda fn, _: fn.random.uniform(values=[1, 5, 7, 1000], shape=[COUNT]))
    assert_frequencies(values, dict.fromkeys([1, 5, 7, 1000], 0.25))


@pytest.mark.parametrize("probability", [0.0, 0.1, 0.5, 1.0])
def test_coins(probability: float) -> None:
    values = draws(lambda fn, _: fn.random.coin_flip(probability=probability, shape=COUNT))
    assert values.dtype == np.int32
    assert_frequencies(values, {0: 1 - probability, 1: probability})


def test_samples_of_a_batch_and_batches_differ() -> None:
    (made,) = run_ours(lambda fn, _: fn.random.uniform(shape=[4]), batch_size=16)
    assert len({tuple(sample.tolist()) for sample in made.samples}) == 16
