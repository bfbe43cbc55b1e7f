"""Matrices between channels against the CPU's results, which this file compares with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._imaging import color_matrix, scale_shift, transform_channels
from dali_proxy.pipeline._imaging.convert import COLOR_CHANNELS, convert, convert_color

MATRIX = np.array([[0.5, 0.25, -0.3], [0.1, 1.2, 0.0], [-1.0, 0.7, 0.9]])
OFFSET = np.array([3.25, -20.0, 0.1])


def sample_images(dtype: str, channels: int = 3) -> list[Any]:
    rng = np.random.default_rng(3)
    return [rng.integers(0, 120, (*shape, channels)).astype(dtype) for shape in ((5, 7), (30, 41), (1, 1), (0, 4))]


@pytest.mark.parametrize(("source", "target"), [("uint8", "uint8"), ("float32", "float16"), ("float16", "int32")])
def test_matrix_of_each_sample(runner: Any, source: str, target: str) -> None:
    feed = sample_images(source)
    matrices = np.stack([MATRIX * factor for factor in (1, 0.5, 2, 1)])
    offsets = np.stack([OFFSET * factor for factor in (1, 2, 3, 4)])
    made = [np.zeros(sample.shape, target) for sample in feed]
    dtype = np.dtype(target)
    runner.evaluate(feed, made, lambda pixels: pixels.matrix(matrices, offsets, dtype))
    for sample, image in enumerate(feed):
        exact = image.astype(np.float64) @ matrices[sample].T + offsets[sample]
        expected = convert(exact, target).astype(np.float64)
        here = transform_channels(image, matrices[sample], offsets[sample], np.empty(image.shape, target))
        for result in (made[sample], here):
            assert np.allclose(result.astype(np.float64), expected, atol=1 if target != "float16" else 0.5)


@pytest.mark.combinations
@pytest.mark.parametrize("source", COLOR_CHANNELS)
@pytest.mark.parametrize("target", COLOR_CHANNELS)
def test_color_spaces(runner: Any, source: str, target: str) -> None:
    feed = sample_images("uint8", COLOR_CHANNELS[source])
    matrix, offset = color_matrix(source, target)
    made = [np.zeros((*sample.shape[:-1], COLOR_CHANNELS[target]), np.uint8) for sample in feed]
    runner.evaluate(feed, made, lambda pixels: pixels.matrix(matrix, offset, np.dtype(np.uint8)))
    for image, result in zip(feed[:3], made, strict=False):
        assert np.abs(result.astype(int) - convert_color(image, source, target)).max() <= 1


def test_channels_must_fit() -> None:
    with pytest.raises(ValueError, match="3 by 4 doesn't convert 3 to 3"):
        transform_channels(np.zeros((1, 3)), np.ones((3, 4)), np.zeros(3), np.zeros((1, 3)))
    with pytest.raises(ValueError, match="unknown colour space"):
        color_matrix("RGB", "HSL")


def test_scaling_of_views_equals_scaling_of_copies() -> None:
    image = sample_images("uint8")[1]
    view = image[::2, ::-1]
    for dtype in ("uint8", "float16", "float32"):
        made = scale_shift(view, 1.5, -3.0, np.empty(view.shape, dtype))
        assert np.array_equal(made, scale_shift(view.copy(), 1.5, -3.0, np.empty(view.shape, dtype)))
