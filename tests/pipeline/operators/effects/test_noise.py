"""Noise: equal to DALI's if nothing is random; distributions by chi-squared and Kolmogorov-Smirnov tests.

We follow DALI's documentation where its behaviour differs: `shot` with a factor of 0 passes samples on (DALI's CPU
version returns zeros), and values of salt beyond the dtype are clamped (DALI's wrap around).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.pipeline.operators.both import RAGGED, compare, refused_by_both, run_dali, run_ours, sample_images

INTEGERS = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")
NOISES = ("gaussian", "shot", "salt_and_pepper")
COUNT = 40_000


def noisy(operator: str, **arguments: Any) -> Any:
    return lambda fn, types, x: getattr(fn.noise, operator)(x, **arguments)


def one(graph: Any, feed: list[Any], **options: Any) -> Any:
    (output,) = run_ours(graph, feed, **options)
    return output.samples[0]


def chi_squared(counts: Any, expected: Any) -> None:
    """Assert that counts are as expected, within five standard deviations of the statistic."""
    degrees = len(counts) - 1
    statistic = float(((counts - expected) ** 2 / expected).sum())
    assert statistic < degrees + 5 * math.sqrt(2 * degrees) + 10, statistic


@pytest.mark.parity
@pytest.mark.parametrize("dtype", [*INTEGERS, "float32"])
def test_mean_is_added_without_deviation(dtype: str) -> None:
    for mean in (0.0, 3.25, -300.0):
        compare(
            noisy("gaussian", mean=mean, stddev=0.0), sample_images(*RAGGED, dtype=dtype, high=100), layouts=["HWC"]
        )


@pytest.mark.parity
@pytest.mark.parametrize("dtype", [*INTEGERS, "float32"])
def test_salt_and_pepper_of_probability_one(dtype: str) -> None:
    feed = sample_images(*RAGGED, dtype=dtype, high=100)
    for ratio in (0.0, 1.0):
        compare(noisy("salt_and_pepper", prob=1.0, salt_vs_pepper=ratio), feed, layouts=["HWC"])
        values = {"salt_val": 3.5, "pepper_val": 7.75}
        compare(noisy("salt_and_pepper", prob=1.0, salt_vs_pepper=ratio, **values), feed, layouts=["HWC"])
    compare(noisy("salt_and_pepper", prob=0.0), feed, layouts=["HWC"])


def test_gaussian_noise_is_normal() -> None:
    drawn = np.sort(one(noisy("gaussian", mean=2.0, stddev=3.0), [np.full(COUNT, 5, np.float32)]).astype(np.float64))
    cumulative = np.array([0.5 * math.erfc(-value / math.sqrt(2)) for value in (drawn - 7.0) / 3.0])
    steps = np.arange(COUNT) / COUNT
    assert max(np.abs(cumulative - steps).max(), np.abs(cumulative - steps - 1 / COUNT).max()) < 1.95 / math.sqrt(COUNT)


@pytest.mark.parametrize(("value", "factor"), [(40, 20.0), (100, 4.0), (100, 0.5)])
def test_shot_noise_is_poisson(value: int, factor: float) -> None:
    expected_events = value / factor
    drawn = one(noisy("shot", factor=factor), [np.full(COUNT, value, np.float32)]).astype(np.float64)
    events = np.rint(drawn / factor).astype(int)
    assert np.array_equal(events * factor, drawn)
    low, high = (round(expected_events + side * 3 * math.sqrt(expected_events)) for side in (-1, 1))
    inner = range(max(low, 0), high + 1)
    shares = np.array([math.exp(k * math.log(expected_events) - expected_events - math.lgamma(k + 1)) for k in inner])
    counts = np.array([(events == k).sum() for k in inner])
    likely = shares * COUNT > 10
    chi_squared(counts[likely], shares[likely] * COUNT)


@pytest.mark.parity
def test_moments_equal_those_of_dali() -> None:
    feed = [np.full((100, 100, 3), 120, np.uint8)]
    for graph in (noisy("gaussian", stddev=11.0), noisy("shot", factor=3.0), noisy("salt_and_pepper", prob=0.2)):
        (theirs,) = run_dali(graph, feed, layouts=["HWC"])
        ours, their = (output.astype(float) for output in (one(graph, feed, layouts=["HWC"]), theirs.samples[0]))
        assert abs(ours.mean() - their.mean()) < 8 * their.std() / 100
        assert 0.95 < ours.std() / their.std() < 1.05


def test_fractions_of_salt_and_pepper() -> None:
    noisy_sample = one(noisy("salt_and_pepper", prob=0.3, salt_vs_pepper=0.2), [np.full((COUNT, 3), 7, np.uint8)])
    assert (noisy_sample == noisy_sample[:, :1]).all()
    counts = np.array([(noisy_sample[:, 0] == value).sum() for value in (0, 7, 255)])
    assert counts.sum() == COUNT
    chi_squared(counts, np.array([0.24, 0.7, 0.06]) * COUNT)


@pytest.mark.parity
@pytest.mark.parametrize(("layout", "axis"), [("HWC", 2), ("CHW", 0), ("DHWC", 3), (None, 2)])
def test_channels_share_their_noise_on_request(layout: str | None, axis: int) -> None:
    feed = [np.full((12, 13, 11, 5)[-len(layout or "HWC") :], 100, np.uint8)]
    for run in (run_ours, run_dali):
        for alone in (False, True):
            (output,) = run(noisy("salt_and_pepper", prob=0.5, per_channel=alone), feed, layouts=[layout])
            noisy_sample = output.samples[0]
            shared = (noisy_sample == noisy_sample.take([0], axis=axis)).all()
            assert shared == (not alone)
            assert set(np.unique(noisy_sample)) == {0, 100, 255}


def test_arguments_per_sample() -> None:
    feed = [np.full(COUNT, 100, np.float32)] * 2
    (output,) = run_ours(
        lambda fn, _, x, m, s: fn.noise.gaussian(x, mean=m, stddev=s),
        feed,
        [np.float32(0), np.float32(50)],
        [np.float32(1), np.float32(5)],
    )
    assert [round(float(sample.mean())) for sample in output.samples] == [100, 150]
    assert [round(float(sample.std())) for sample in output.samples] == [1, 5]


@pytest.mark.parametrize("operator", NOISES)
def test_noise_depends_on_neither_threads_nor_the_size_of_the_batch(operator: str) -> None:
    feed = sample_images(*RAGGED, dtype="uint8", low=50, high=200)
    (few,) = run_ours(noisy(operator), feed, layouts=["HWC"])
    (many,) = run_ours(noisy(operator), feed + feed, layouts=["HWC"], num_threads=3)
    for ours, theirs in zip(few.samples, many.samples, strict=False):
        assert np.array_equal(ours, theirs)
    assert not np.array_equal(many.samples[0], many.samples[3])
    (other,) = run_ours(noisy(operator), feed, layouts=["HWC"], seed=8)
    assert not np.array_equal(few.samples[0], other.samples[0])


def test_shot_noise_of_extremes() -> None:
    values = [np.array([-5.0, 0.0, 1e30, np.inf], np.float32)]
    assert one(noisy("shot", factor=20.0), values).tolist() == [0.0, 0.0, float(np.float32(1e30)), np.inf]
    assert one(noisy("shot", factor=0.0), values).tolist() == values[0].tolist()
    assert one(noisy("shot", factor=-1.0), [np.array([100], np.uint8)]).tolist() == [0]


def test_salt_beyond_the_dtype_is_clamped() -> None:
    graph = noisy("salt_and_pepper", prob=1.0, salt_vs_pepper=1.0, salt_val=300.0)
    assert (one(graph, [np.zeros((4, 3), np.uint8)]) == 255).all()


@pytest.mark.parametrize("operator", NOISES)
def test_scalars_and_empty_samples(operator: str) -> None:
    for feed in ([np.float32(1)] * 2, [np.zeros((0, 3), np.float32)]):
        (output,) = run_ours(noisy(operator), feed)
        assert output.samples[0].shape == np.shape(feed[0])


@pytest.mark.parity
def test_bad_calls_are_refused() -> None:
    feed = sample_images((4, 5, 3))
    for operator in NOISES:
        refused_by_both(noisy(operator), [feed[0].astype(np.float64)], match="the samples must be one of")
    refused_by_both(noisy("salt_and_pepper", prob=2.0), feed, match="'prob' must be between 0 and 1")
    refused_by_both(noisy("salt_and_pepper", salt_vs_pepper=-1.0), feed, match="'salt_vs_pepper' must be between")
    refused_by_both(noisy("salt_and_pepper"), sample_images((4, 5)), layouts=["HW"], match="has no channels")
