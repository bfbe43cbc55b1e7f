"""The training pipeline's augmentation with pillow, one image at a time, for the comparison of speeds."""

from __future__ import annotations

import io
import math

import numpy as np
import torch
from PIL import Image

from dali_proxy._new.kinds.classification import NORMAL, SIZE

_AREA = (0.3, 1.0)
_ASPECT_RATIO = (3 / 4, 4 / 3)
_MEAN, _SCALE = np.array(NORMAL["mean"], np.float32), 1 / np.array(NORMAL["std"], np.float32)


def pillow_augment(encoded: bytes) -> torch.Tensor:
    """Decode, crop, resize, mirror and normalise an image as `augment` does, in the dataset's worker.

    Its random numbers come from torch's generator, which torch seeds in each worker.
    """
    image = Image.open(io.BytesIO(encoded)).convert("RGB")
    image = image.resize((SIZE, SIZE), Image.Resampling.BILINEAR, box=random_box(image.size))
    if torch.rand(()) < 0.5:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    pixels = (np.asarray(image, np.float32) - _MEAN) * _SCALE
    return torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1)))


def random_box(size: tuple[int, int], attempts: int = 10) -> tuple[int, int, int, int]:
    """Return left, top, right and bottom of a crop of random area and aspect ratio, or the whole image if none fits."""
    width, height = size
    low, high = (math.log(ratio) for ratio in _ASPECT_RATIO)
    for _ in range(attempts):
        area_roll, ratio_roll, x_roll, y_roll = torch.rand(4).tolist()
        area = width * height * (_AREA[0] + area_roll * (_AREA[1] - _AREA[0]))
        ratio = math.exp(low + ratio_roll * (high - low))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            x, y = int(x_roll * (width - w + 1)), int(y_roll * (height - h + 1))
            return x, y, x + w, y + h
    return 0, 0, width, height
