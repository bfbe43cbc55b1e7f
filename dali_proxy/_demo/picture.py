"""An image of one augmented batch, as the network sees it, with a caption below each tile."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from PIL import Image, ImageDraw

from dali_proxy._demo.pipes import MEAN, STD

CAPTION_HEIGHT = 14
GAP = 4


def batch_picture(images: torch.Tensor, captions: Sequence[str], columns: int = 8) -> Image.Image:
    """Draw a batch as a grid.

    Args:
        images: Normalised images, float ``[N, 3, H, W]``, on any device.
        captions: One text for each image.
        columns: Number of tiles in a row.

    Returns:
        An RGB image with ``ceil(N / columns)`` rows.
    """
    pixels = denormalised(images)
    count, height, width, _ = pixels.shape
    columns = min(columns, count)
    cell_width, cell_height = width + GAP, height + CAPTION_HEIGHT + GAP
    grid = Image.new("RGB", (columns * cell_width + GAP, -(-count // columns) * cell_height + GAP), "white")
    pen = ImageDraw.Draw(grid)
    for index, (tile, caption) in enumerate(zip(pixels, captions, strict=True)):
        x = GAP + index % columns * cell_width
        y = GAP + index // columns * cell_height
        grid.paste(Image.fromarray(tile), (x, y))
        pen.text((x + 1, y + height + 1), caption[: width // 6], fill="black")
    return grid


def denormalised(images: torch.Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """Undo the pipeline's normalisation. Return uint8 ``[N, H, W, 3]`` for float ``[N, 3, H, W]``."""
    mean, std = (torch.tensor(channels).view(1, 3, 1, 1) for channels in (MEAN, STD))
    pixels = (images.detach().cpu().float() * std + mean).round().clamp(0, 255)
    return pixels.to(torch.uint8).permute(0, 2, 3, 1).contiguous().numpy()
