"""A random window, as ``decoders.image_random_crop`` and torchvision's RandomResizedCrop choose it."""

from __future__ import annotations

import math
import random

from benchmarks.workload import CROP_AREA, CROP_ASPECT_RATIO

LOG_RATIO = tuple(math.log(ratio) for ratio in CROP_ASPECT_RATIO)


def random_window(width: int, height: int, attempts: int = 10) -> tuple[int, int, int, int]:
    """Chooses part of a picture by area and aspect ratio.

    Args:
        width: The picture's width in pixels.
        height: Its height.
        attempts: Windows to try before the whole picture is taken.

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
