"""Boxes of objects: their overlap, the recall of guesses, and drawings.

Rows have centre x, centre y, width and height as fractions of the image, and the class.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch


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


def corners(objects: torch.Tensor) -> torch.Tensor:
    """Return left, top, right and bottom of boxes that are given by centre, width and height."""
    return torch.cat([objects[:, :2] - objects[:, 2:4] / 2, objects[:, :2] + objects[:, 2:4] / 2], dim=1)
