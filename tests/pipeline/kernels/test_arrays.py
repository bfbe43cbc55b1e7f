"""Joining, one-hot codes and standardising, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._kernels.join import plan_join
from dali_proxy.pipeline._kernels.one_hot import plan_one_hot
from dali_proxy.pipeline._kernels.samples import Samples
from dali_proxy.pipeline._kernels.standardize import Spread, plan_standardize
from pipeline.errors import PipelineError


@pytest.mark.parametrize(("axis", "dtype"), [(0, "uint8"), (1, "float64"), (2, "bool"), (2, "int16")])
def test_join(runner: Any, axis: int, dtype: str) -> None:
    rng = np.random.default_rng(2)
    lengths = [(2, 5), (0, 3), (1, 1)]
    batches = []
    for number in range(3):
        shapes = [[3, 4, 5], [1, 2, 3]]
        for shape, length in zip(shapes, lengths[number], strict=True):
            shape[axis] = length
        batches.append([rng.integers(0, 2, shape).astype(dtype) for shape in shapes])
    expected = [np.concatenate([batch[sample] for batch in batches], axis) for sample in range(2)]
    made = [np.zeros_like(array) for array in expected]
    runner.join_samples(batches, made, axis)
    for ours, theirs in zip(made, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("source", "target", "axis"), [("uint8", "float32", 2), ("int64", "int8", 0), ("float32", "float16", 1)]
)
def test_one_hot(runner: Any, source: str, target: str, axis: int) -> None:
    rng = np.random.default_rng(2)
    feed = [rng.integers(0, 6, shape).astype(source) for shape in ((2, 3), (1, 4), (0, 2))]
    expected = [
        np.where(np.expand_dims(x, axis) == np.arange(4).reshape(-1, *[1] * (2 - axis)), 2, -1).astype(target)
        for x in feed
    ]
    made = [np.zeros_like(array) for array in expected]
    runner.one_hot(feed, made, axis, 2.0, -1.0)
    for ours, theirs in zip(made, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(("way", "target"), [("factor", "float32"), ("deviations", "float32"), ("sums", "uint8")])
def test_standardize(runner: Any, way: str, target: str) -> None:
    rng = np.random.default_rng(2)
    feed = [rng.integers(0, 50, shape).astype(np.uint8) for shape in ((3, 4, 2), (5, 1, 2), (0, 1, 2))]
    means = [rng.uniform(0, 50, (1, x.shape[1], 2)).astype(np.float32) for x in feed]
    values = [np.array([[[0, 4]]]) for _ in feed]
    spread: dict[str, Any] = {"epsilon": 0.0}
    if way == "factor":
        spread["factor"] = np.full(len(feed), 0.5, np.float32)
        factors = [np.float32(0.5)] * len(feed)
    elif way == "deviations":
        spread["deviations"] = [value.astype(np.float32) for value in values]
        factors = [np.array([[[0, 3 / 4]]])] * len(feed)
    else:
        spread.update(sums=[value.astype(np.float64) for value in values], degrees=np.array([2.0, 2.0, 0.0]))
        factors = [np.array([[[0, 3 / np.sqrt(2)]]])] * len(feed)
    made = [np.zeros(x.shape, target) for x in feed]
    runner.standardize(feed, made, means=means, spread=spread, scale=3.0, shift=7.0)
    for ours, x, mean, factor in zip(made, feed, means, factors, strict=True):
        exact = (x - mean.astype(np.float64)) * factor + 7
        exact = np.clip(exact, 0, 255) if target == "uint8" else exact
        np.testing.assert_allclose(ours.astype(np.float64), exact, atol=0.51 if target == "uint8" else 1e-4)


def test_arrays_that_do_not_fit_are_refused() -> None:
    a, b = Samples.from_arrays([np.zeros((2, 3), np.float32)]), Samples.from_arrays([np.zeros((3, 3), np.float32)])
    strided = Samples.from_arrays([np.zeros((4, 3), np.float32)[::2]])
    with pytest.raises(PipelineError, match="don't add up"):
        list(plan_join([a, a], b, 0))
    with pytest.raises(PipelineError, match="not contiguous"):
        list(plan_join([strided], a, 0))
    with pytest.raises(PipelineError, match="one axis more"):
        plan_one_hot(a, b, 0)
    with pytest.raises(PipelineError, match="differ in shape"):
        plan_standardize(a, b, mean=a, spread=Spread())
    with pytest.raises(PipelineError, match="the divisor is missing"):
        plan_standardize(a, a, mean=a, spread=Spread())
    with pytest.raises(PipelineError, match="don't broadcast"):
        plan_standardize(a, a, mean=b, spread=Spread())
