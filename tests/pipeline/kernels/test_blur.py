"""The blur kernel against the CPU's filter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeline._imaging import blur, gaussian_window
from pipeline._kernels.blur import BlurPlan
from pipeline._kernels.samples import Samples
from pipeline.errors import PipelineError

SHAPES = ((17, 9, 3), (2, 5, 3), (1, 30, 3), (0, 4, 3))


@pytest.mark.parametrize(("source", "target"), [("uint8", "uint8"), ("uint8", "float32"), ("float64", "float64")])
def test_blur_of_two_axes(runner: Any, source: str, target: str) -> None:
    rng = np.random.default_rng(5)
    feed = [rng.integers(0, 256, shape).astype(source) for shape in SHAPES]
    windows = [[gaussian_window(0.5 + number, 0), gaussian_window(0.0, 2 * number + 3)] for number in range(4)]
    made = [np.zeros(shape, target) for shape in SHAPES]
    runner.blur_axes(feed, made, first=0, windows=windows)
    for image, result, pair in zip(feed, made, windows, strict=True):
        expected = blur(image, pair, np.empty(image.shape, target)).astype(np.float64)
        assert np.allclose(result, expected, rtol=0, atol=1 if target == "uint8" else 1e-3)


@pytest.mark.parametrize(("first", "axes"), [(0, 1), (0, 3), (1, 3), (1, 2), (2, 1)])
def test_other_axes(runner: Any, first: int, axes: int) -> None:
    rng = np.random.default_rng(6)
    feed = [rng.random((4, 6, 5, 7)).astype(np.float32), rng.random((3, 2, 9, 4)).astype(np.float32)]
    windows = [[gaussian_window(0.8 + axis, 0) for axis in range(axes)]] * 2
    made = [np.zeros_like(sample) for sample in feed]
    runner.blur_axes(feed, made, first=first, windows=windows)
    for image, result in zip(feed, made, strict=True):
        expected = image.astype(np.float64)
        for number, window in enumerate(windows[0]):
            reach = len(window) // 2
            lines = np.moveaxis(expected, first + number, -1)
            padding = [(0, 0)] * 3 + [(reach, reach)]
            padded = np.pad(lines, padding, mode="reflect")
            filtered = np.apply_along_axis(np.convolve, -1, padded, window.astype(np.float64), mode="valid")
            expected = np.moveaxis(filtered, -1, first + number)
        assert np.allclose(result, expected, atol=1e-5)


def test_samples_must_fit() -> None:
    here, there = Samples.from_arrays([np.zeros((3, 4, 1))]), Samples.from_arrays([np.zeros((3, 5, 1))])
    with pytest.raises(PipelineError, match="differ in number or shape"):
        BlurPlan(here, there, first=0, windows=[[gaussian_window(1.0, 0)]])
    with pytest.raises(PipelineError, match="not contiguous"):
        BlurPlan(
            Samples.from_arrays([np.zeros((4, 3, 1)).transpose(1, 0, 2)]),
            here,
            first=0,
            windows=[[np.ones(1, np.float32)]],
        )
