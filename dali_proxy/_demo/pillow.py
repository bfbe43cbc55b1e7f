"""The training pipeline's augmentation with pillow, one image at a time, for the comparison of speeds."""

from __future__ import annotations

import io
import math

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from dali_proxy._demo.pipes import CROP_AREA, CROP_ASPECT_RATIO, IMAGE_SIZE, MEAN, STD


class PillowAugment:
    """Decodes, crops, resizes, mirrors and normalises one image in the dataset's worker.

    Its random numbers come from torch's generator, which torch seeds in each worker.
    """

    def __init__(self) -> None:
        self.mean = np.array(MEAN, np.float32)
        self.scale = 1 / np.array(STD, np.float32)

    def __call__(self, encoded: npt.NDArray[np.uint8]) -> torch.Tensor:
        """Return a float32 tensor ``[3, IMAGE_SIZE, IMAGE_SIZE]`` for an encoded image, uint8 ``[bytes]``."""
        image = Image.open(io.BytesIO(encoded.tobytes())).convert("RGB")
        image = image.resize((IMAGE_SIZE, IMAGE_SIZE), Image.Resampling.BILINEAR, box=random_box(image.size))
        if torch.rand(()) < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        pixels = (np.asarray(image, np.float32) - self.mean) * self.scale
        return torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1)))


def random_box(size: tuple[int, int], attempts: int = 10) -> tuple[int, int, int, int]:
    """Choose a crop of random area and aspect ratio, like ``decoders.image_random_crop``.

    Args:
        size: Width and height of the image.
        attempts: Number of windows to try before it returns the whole image.

    Returns:
        Left, top, right and bottom in pixels.
    """
    width, height = size
    low, high = (math.log(ratio) for ratio in CROP_ASPECT_RATIO)
    for _ in range(attempts):
        area_roll, ratio_roll, x_roll, y_roll = torch.rand(4).tolist()
        area = width * height * (CROP_AREA[0] + area_roll * (CROP_AREA[1] - CROP_AREA[0]))
        ratio = math.exp(low + ratio_roll * (high - low))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            x, y = int(x_roll * (width - w + 1)), int(y_roll * (height - h + 1))
            return x, y, x + w, y + h
    return 0, 0, width, height
