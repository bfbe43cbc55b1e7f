"""The kernel's noise: its distributions, by chi-squared and Kolmogorov-Smirnov tests, and memory it must not touch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._kernels.noise import Noise

COUNT = 40_000
SEEDS = np.array([1, 1 << 63], np.uint64)


def drawn(
    runner: Any,
    feed: list[Any],
    noise: Noise,
    *,
    first: float,
    second: float = 0.0,
    replacements: tuple[int, int] = (0, 0),
    axis: int | None = None,
) -> list[Any]:
    made = [np.zeros_like(sample) for sample in feed]
    seeds = SEEDS[: len(feed)]
    runner.evaluate(feed, made, lambda pixels: pixels.noise(noise.value, seeds, (first, second), replacements, axis))
    return made


def test_gaussian_noise_is_normal(runner: Any) -> None:
    for sample in drawn(runner, [np.full(COUNT, 5, np.float32)] * 2, Noise.GAUSSIAN, first=2.0, second=3.0):
        values = (np.sort(sample.astype(np.float64)) - 7.0) / 3.0
        cumulative = np.array([0.5 * math.erfc(-value / math.sqrt(2)) for value in values])
        assert np.abs(cumulative - (np.arange(COUNT) + 0.5) / COUNT).max() < 1.95 / math.sqrt(COUNT)
        assert abs(np.corrcoef(sample[:-1], sample[1:])[0, 1]) < 5 / math.sqrt(COUNT)


@pytest.mark.parametrize("expected", [0.4, 5.0, 9.9, 10.0, 25.0, 300.0])
def test_shot_noise_is_poisson(runner: Any, expected: float) -> None:
    (sample,) = drawn(runner, [np.full(COUNT, 2 * expected, np.float64)], Noise.SHOT, first=2.0)
    events = np.rint(sample / 2.0).astype(int)
    assert np.array_equal(events * 2.0, sample)
    low, high = (round(expected + side * 3 * math.sqrt(expected)) for side in (-1, 1))
    inner = range(max(low, 0), high + 1)
    shares = np.array([math.exp(k * math.log(expected) - expected - math.lgamma(k + 1)) for k in inner]) * COUNT
    counts = np.array([(events == k).sum() for k in inner])
    likely = shares > 10
    statistic = float(((counts - shares)[likely] ** 2 / shares[likely]).sum())
    degrees = int(likely.sum())
    assert statistic < degrees + 5 * math.sqrt(2 * degrees) + 10
    assert abs(sample.mean() / 2 - expected) < 5 * math.sqrt(expected / COUNT)


def test_shot_noise_of_extremes(runner: Any) -> None:
    values = np.array([-5.0, 0.0, 1e30, np.inf], np.float32)
    assert drawn(runner, [values], Noise.SHOT, first=20.0)[0].tolist() == [0.0, 0.0, float(values[2]), np.inf]
    assert drawn(runner, [values], Noise.SHOT, first=0.0)[0].tolist() == values.tolist()


@pytest.mark.parametrize("axis", [None, 0, 1, 2])
def test_salt_and_pepper(runner: Any, axis: int | None) -> None:
    feed = [np.full((30, 40, 30), 7, np.uint8)]
    (made,) = drawn(runner, feed, Noise.SALT_AND_PEPPER, first=0.06, second=0.3, replacements=(255, 1), axis=axis)
    if axis is not None:
        assert (made == made.take([0], axis=axis)).all()
        made = made.take(0, axis=axis)
    shares = np.array([(made == value).mean() for value in (1, 7, 255)])
    expected = np.array([0.24, 0.7, 0.06])
    assert np.abs(shares - expected).max() < 5 * math.sqrt(0.25 / made.size)
    assert shares.sum() == pytest.approx(1)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32"])
def test_integers_are_rounded_and_clamped(runner: Any, dtype: str) -> None:
    feed = [np.array([0, 1, 100, 120], dtype)]
    (made,) = drawn(runner, feed, Noise.GAUSSIAN, first=3.75, second=0.0)
    expected = [3.75, 4.75, 103.75, 123.75] if dtype == "float32" else [4, 5, 104, 124]
    assert made.tolist() == expected


def test_seeds_decide(runner: Any) -> None:
    feed = [np.zeros(100, np.float32)] * 2
    first = drawn(runner, feed, Noise.GAUSSIAN, first=0.0, second=1.0)
    again = drawn(runner, feed[:1], Noise.GAUSSIAN, first=0.0, second=1.0)
    assert np.array_equal(first[0], again[0])
    assert not np.array_equal(first[0], first[1])
