"""JPEG distortion equals that of a file written and read by libjpeg, to the last bit."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest

from dali_proxy.pipeline._kernels.jpeg import JpegPlan
from dali_proxy.pipeline._kernels.samples import Samples
from pipeline.errors import PipelineError

SHAPES = ((37, 53), (16, 32), (1, 1), (3, 5), (50, 4), (0, 7), (64, 18), (130, 170))


def test_distortion_equals_a_jpeg_file(runner: Any) -> None:
    rng = np.random.default_rng(3)
    feed, quality = [], []
    for number, (height, width) in enumerate(SHAPES * 3):
        noise = rng.integers(0, 256, (height, width, 3)).astype(np.uint8)
        feed.append(cv2.GaussianBlur(noise, (3, 3), 1) if noise.size and number % 2 else noise)
        quality.append((1, 10, 30, 50, 77, 95, 100)[number % 5])
    made = [np.zeros_like(image) for image in feed]
    runner.distort_as_jpeg(feed, made, np.array(quality))
    for image, ours, level in zip(feed, made, quality, strict=True):
        if image.size:
            options = [cv2.IMWRITE_JPEG_QUALITY, level, cv2.IMWRITE_JPEG_SAMPLING_FACTOR, 0x221111]
            _, encoded = cv2.imencode(".jpg", image[..., ::-1], options)
            decoded = cv2.imdecode(encoded, cv2.IMREAD_COLOR)
            assert decoded is not None
            np.testing.assert_array_equal(ours, decoded[..., ::-1])


def test_arrays_that_are_not_images_are_refused() -> None:
    gray = Samples.from_arrays([np.zeros((4, 4, 1), np.uint8)])
    with pytest.raises(PipelineError, match="must be RGB images"):
        JpegPlan(gray, gray, np.array([50]))
