"""`experimental.median_blur` compared with OpenCV, which DALI's GPU version follows, and with NumPy."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from pipeline.errors import PipelineError
from tests.pipeline.operators.both import Array, run_ours


def run(image: Array, layout: str, *size: int) -> Array:
    (output,) = run_ours(
        lambda fn, types, x: fn.experimental.median_blur(x, window_size=list(size)), [image], layouts=[layout]
    )
    return output.samples[0]


@pytest.mark.parametrize(("dtype", "width"), [("uint8", 3), ("uint8", 9), ("uint16", 5), ("float32", 3)])
def test_median_blur_equals_opencv(dtype: str, width: int) -> None:
    image = np.random.default_rng(0).integers(0, 255, (17, 23, 3)).astype(dtype)
    expected = cv2.medianBlur(image, width)
    assert np.array_equal(run(image, "HWC", width, width), expected)
    assert np.array_equal(run(image.transpose(2, 0, 1), "CHW", width, width), expected.transpose(2, 0, 1))


@pytest.mark.parametrize(("dtype", "channels"), [("uint8", 3), ("int32", 5)])
def test_median_blur_accepts_rectangles(dtype: str, channels: int) -> None:
    image = np.random.default_rng(0).integers(0, 255, (9, 8, channels)).astype(dtype)
    padded = np.pad(image, ((2, 2), (1, 1), (0, 0)), mode="edge")
    expected = [[np.median(padded[y : y + 5, x : x + 3], axis=(0, 1)) for x in range(8)] for y in range(9)]
    assert np.array_equal(run(image, "HWC", 3, 5), np.array(expected))


def test_median_blur_refuses_even_sizes() -> None:
    with pytest.raises(PipelineError, match="must be odd"):
        run(np.zeros((4, 4, 1), np.uint8), "HWC", 4, 3)
