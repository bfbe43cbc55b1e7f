"""Reductions on the GPU against those on the CPU, over ragged batches of any strides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._imaging.reductions import REDUCTIONS, reduce, result_dtype
from dali_proxy.pipeline._kernels.reduce import ReductionPlan
from dali_proxy.pipeline._kernels.samples import Samples
from pipeline.errors import PipelineError

SHAPES = ((5, 7, 3), (40, 41, 3), (0, 4, 3), (1, 1, 3))


def batch(dtype: str) -> list[Any]:
    rng = np.random.default_rng(3)
    feed = [rng.integers(0 if dtype[0] in "ub" else -60, 60, shape).astype(dtype) for shape in SHAPES]
    return [sample[::-1] for sample in feed]


@pytest.mark.parametrize(
    ("name", "axes", "dtype"),
    [
        ("sum", (0, 1, 2), "uint8"),
        ("sum", (0, 1), "uint8"),
        ("min", (2, 0), "float16"),
        ("max", (), "int16"),
        ("mean", (0, 1), "float16"),
        ("mean_square", (1,), "uint8"),
        ("rms", (0,), "float32"),
        ("variance", (0, 1, 2), "float32"),
        ("std_dev", (2, 0), "uint8"),
    ],
)
def test_reductions_equal_the_cpu(runner: Any, name: str, axes: tuple[int, ...], dtype: str) -> None:
    reduction, feed, made, expected, means = REDUCTIONS[name], batch(dtype), [], [], []
    target = result_dtype(reduction, dtype)
    for sample in feed:
        mean = None
        if reduction.term == "difference":
            mean = reduce(sample, REDUCTIONS["mean"], axes, np.dtype(np.float32))
            means.append(mean)
        expected.append(reduce(sample, reduction, axes, target, mean=mean, ddof=2))
        made.append(np.zeros(expected[-1].shape, target))
    options = {"means": means} if means else {}
    runner.reduce_axes(feed, made, reduction, axes=axes, ddof=2, **options)
    for ours, theirs in zip(made, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "dtype"), [("sum", "int8"), ("mean", "int8"), ("rms", "uint8"), ("min", "bool"), ("max", "int8")]
)
def test_integers_wrap_around(runner: Any, name: str, dtype: str) -> None:
    feed = batch(dtype)
    expected = [reduce(sample, REDUCTIONS[name], (0, 1), np.dtype(dtype)) for sample in feed]
    made = [np.zeros(sample.shape, dtype) for sample in expected]
    runner.reduce_axes(feed, made, REDUCTIONS[name], axes=(0, 1))
    for ours, theirs in zip(made, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_nan_is_ignored_by_extremes(runner: Any) -> None:
    made = [np.zeros((1, 2), np.float32)]
    runner.reduce_axes([np.float32([[np.nan, 1], [3, np.nan]])], made, REDUCTIONS["max"], axes=(0,))
    assert made[0].tolist() == [[3, 1]]


def test_mean_of_each_sample(runner: Any) -> None:
    feed, made = [np.float32([[1, 2], [3, 4]])], [np.zeros((1, 2), np.float32)]
    runner.reduce_axes(feed, made, REDUCTIONS["variance"], axes=(0,), means=[np.ones((), np.float32)])
    assert made[0].tolist() == [[2, 5]]


def test_arrays_that_do_not_fit_are_refused() -> None:
    src, dst = Samples.from_arrays([np.zeros((2, 3))]), Samples.from_arrays([np.zeros(3)])
    with pytest.raises(PipelineError, match="the number of elements"):
        ReductionPlan(src, dst, REDUCTIONS["sum"], axes=(1,))
    with pytest.raises(PipelineError, match="only reductions of differences"):
        ReductionPlan(src, dst, REDUCTIONS["variance"], axes=(0,))
    with pytest.raises(PipelineError, match="means must be float32"):
        ReductionPlan(src, dst, REDUCTIONS["variance"], axes=(0,), mean=Samples.from_arrays([np.zeros(2)]))
