"""Choose a random window, as ``decoders.image_random_crop`` and torchvision's RandomResizedCrop do."""

from __future__ import annotations

import math
import random

from benchmarks.workload import CROP_AREA, CROP_ASPECT_RATIO

LOG_RATIO = tuple(math.log(ratio) for ratio in CROP_ASPECT_RATIO)


def random_window(width: int, height: int, attempts: int = 10) -> tuple[int, int, int, int]:
    """Choose a window of an image by area and aspect ratio.

    Args:
        width: Width of the image in pixels.
        height: Height of the image in pixels.
        attempts: Number of windows to try before using the whole image.

    Returns:
        Left, top, width and height of the window.
    """
    for _ in range(attempts):
        area = width * height * random.uniform(*CROP_AREA)
        ratio = math.exp(random.uniform(*LOG_RATIO))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return random.randint(0, width - w), random.randint(0, height - h), w, h
    return 0, 0, width, height
