"""The filter kernel against the CPU's filter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeline._imaging.filter2d import Border, filter2d
from pipeline._kernels.filter import plan_filter_images
from pipeline._kernels.samples import Samples
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


def test_positions_of_large_images_have_64_bits() -> None:
    window, anchor = Samples.from_arrays([np.ones((3, 3), np.float32)]), np.zeros((1, 2), np.int64)
    for rows, index in ((1 << 20, "int"), (1 << 21, "int64")):
        image = Samples(
            *(np.array(column, np.int64) for column in ([0], [[rows, 1 << 10, 1]], [[1 << 10, 1, 1]])),
            np.dtype(np.uint8),
        )
        launch = plan_filter_images(image, image, windows=window, anchors=anchor)
        assert launch is not None
        assert dict(launch.defines)["INDEX"] == index
