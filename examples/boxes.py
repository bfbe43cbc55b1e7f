"""Boxes of objects: their overlap, the recall of guesses, and drawings.

Rows have centre x, centre y, width and height as fractions of the image, and the class.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from PIL import Image, ImageDraw

import common


def iou(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the intersection over union of boxes [n, 1 or m, 4 or more], given by centre and size."""
    low = torch.maximum(a[..., :2] - a[..., 2:4] / 2, b[..., :2] - b[..., 2:4] / 2)
    high = torch.minimum(a[..., :2] + a[..., 2:4] / 2, b[..., :2] + b[..., 2:4] / 2)
    shared = (high - low).clamp(min=0).prod(dim=-1)
    return shared / (a[..., 2:4].prod(-1) + b[..., 2:4].prod(-1) - shared).clamp(min=1e-9)


def recall(images: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> float:
    """Return the fraction of objects among the guesses: correct class, IoU of at least 0.5.

    Args:
        images: objects [n, 5] and guesses [m, 5] of each image.
    """
    hits = total = 0
    for objects, guesses in images:
        truth = objects.cpu()[:, None]
        right = (iou(truth, guesses[None]) >= 0.5) & (truth[..., 4] == guesses[None, :, 4])
        hits, total = hits + int(right.any(dim=1).sum()), total + len(truth)
    return hits / max(total, 1)


def draw(images: torch.Tensor, objects: Iterable[torch.Tensor]) -> list[np.ndarray]:
    """Draw boxes around the objects of images, one colour per class."""
    tiles = []
    for pixels, rows in zip(common.to_pixels(images), objects, strict=True):
        tile = Image.fromarray(pixels)
        for x, y, width, height, label in rows.tolist():
            corners = ((x - width / 2) * tile.width, (y - height / 2) * tile.height)
            corners += ((x + width / 2) * tile.width - 1, (y + height / 2) * tile.height - 1)
            ImageDraw.Draw(tile).rectangle(corners, outline=("red", "lime", "yellow", "cyan")[int(label) % 4], width=2)
        tiles.append(np.asarray(tile))
    return tiles
