"""The filter kernel against the CPU's filter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._imaging.filter2d import Border, filter2d
from dali_proxy.pipeline._kernels.filter import plan_filter_images
from dali_proxy.pipeline._kernels.samples import Samples
from pipeline.errors import PipelineError

SHAPES = ((17, 9, 3), (2, 5, 3), (1, 30, 3), (12, 4, 3))
WINDOWS = ((3, 3), (5, 7), (1, 4), (2, 1))


@pytest.mark.parametrize(
    ("border", "source", "target"),
    [*((border, "uint8", "uint8") for border in Border), (Border.REFLECT_101, "int16", "float32")],
)
def test_borders(runner: Any, border: Border, source: str, target: str) -> None:
    rng = np.random.default_rng(5)
    feed = [rng.integers(0, 256, shape).astype(source) for shape in SHAPES]
    windows = [rng.normal(0, 0.4, shape).astype(np.float32) for shape in WINDOWS]
    anchors = np.array([[1, 1], [4, 0], [0, 3], [1, 0]])
    fills = np.array([0.0, 9.0, 100.0, 3.0])
    made = [np.zeros(shape, target) for shape in SHAPES]
    runner.filter_images(feed, made, windows=windows, anchors=anchors, border=border, fills=fills)
    for number, image in enumerate(feed):
        anchor = (int(anchors[number, 0]), int(anchors[number, 1]))
        expected = np.empty(image.shape, target)
        filter2d(image, windows[number], anchor, expected, border, float(fills[number]))
        tolerance = 1 if target == "uint8" else 1e-2
        assert np.allclose(made[number].astype(float), expected.astype(float), rtol=0, atol=tolerance)


def test_filter_without_border_covers_inner_windows(runner: Any) -> None:
    rng = np.random.default_rng(5)
    image, window = rng.random((9, 11, 2)).astype(np.float32), rng.random((3, 4)).astype(np.float32)
    made = [np.zeros((7, 8, 2), np.float32)]
    runner.filter_images([image], made, windows=[window], anchors=np.zeros((1, 2), np.int64))
    assert np.allclose(made[0], filter2d(image, window, (0, 0), np.empty((7, 8, 2), np.float32)), atol=1e-5)


def test_samples_must_fit() -> None:
    here, there = Samples.from_arrays([np.zeros((3, 4, 1))]), Samples.from_arrays([np.zeros((3, 5, 2))])
    with pytest.raises(PipelineError, match="differ in number or channels"):
        plan_filter_images(
            here, there, windows=Samples.from_arrays([np.ones((1, 1), np.float32)]), anchors=np.zeros((1, 2), np.int64)
        )


def test_empty_windows_are_refused() -> None:
    image = Samples.from_arrays([np.zeros((3, 4, 1))])
    with pytest.raises(PipelineError, match="no elements"):
        plan_filter_images(
            image, image, windows=Samples.from_arrays([np.ones((0, 2), np.float32)]), anchors=np.zeros((1, 2), np.int64)
        )


def test_rows_have_positions_of_32_bits_and_images_may_be_larger() -> None:
    window, anchor = Samples.from_arrays([np.ones((3, 3), np.float32)]), np.zeros((1, 2), np.int64)

    def image(height: int, width: int) -> Samples:
        shape, strides = np.array([[height, width, 1]]), np.array([[width, 1, 1]])
        return Samples(np.zeros(1, np.int64), shape, strides, np.dtype(np.uint8))

    large = image(1 << 21, 1 << 11)
    assert plan_filter_images(large, large, windows=window, anchors=anchor) is not None
    long = image(3, 1 << 31)
    with pytest.raises(PipelineError, match="elements in a row"):
        plan_filter_images(long, long, windows=window, anchors=anchor)


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ((50, 300, 1), (40, 3)),
        ((9, 90, 1), (3, 50)),
        ((40, 60, 3), (14, 20)),
        ((35, 7, 90), (4, 3)),
        ((33, 43, 3), (7, 11)),
    ],
)
def test_windows_that_exceed_the_shared_memory(runner: Any, shape: tuple[int, ...], size: tuple[int, int]) -> None:
    rng = np.random.default_rng(5)
    image, window = rng.normal(0, 1, shape).astype(np.float32), rng.normal(0, 1, size).astype(np.float32)
    made, anchor = [np.zeros_like(image)], (size[0] // 2, size[1] // 2)
    runner.filter_images([image], made, windows=[window], anchors=np.array([anchor]), border=Border.CLAMP)
    assert np.allclose(made[0], filter2d(image, window, anchor, np.empty_like(image), Border.CLAMP), atol=1e-4)


@pytest.mark.parametrize("border", [Border.REFLECT_101, Border.CONSTANT])
def test_values_that_are_not_finite_change_only_elements_around_them(runner: Any, border: Border) -> None:
    image = np.zeros((40, 50, 2), np.float32)
    image[20, 30, 1], image[5, 6, 0] = np.inf, np.nan
    made, window = [np.zeros_like(image)], np.ones((3, 5), np.float32)
    runner.filter_images([image], made, windows=[window], anchors=np.array([[1, 2]]), border=border)
    expected = np.zeros_like(image)
    expected[19:22, 28:33, 1], expected[4:7, 4:9, 0] = np.inf, np.nan
    np.testing.assert_array_equal(made[0], expected)
