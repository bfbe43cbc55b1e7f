"""Drawings in place of photographs: textures that look alike everywhere, so that a network recognises their crops."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw

_SIZE = (900, 600)  # width and height in pixels
_SHAPES = 240


def draw(number: int) -> Image.Image:
    """Return a drawing; each number has other colors and shapes.

    Example:
        >>> draw(3).size
        (900, 600)
    """
    dice = np.random.default_rng(number)
    hue = 255 * number * 5 // 12 % 256
    image = Image.new("HSV", _SIZE, (hue, 120, 150))
    pen = ImageDraw.Draw(image)
    kinds = (pen.ellipse, pen.rectangle, lambda box, fill: pen.line(box, fill, 4))
    for _ in range(_SHAPES):
        x, y = dice.integers((0, 0), _SIZE)
        width, height = dice.integers(10, 40 + 30 * (number % 4), 2)
        color = (int(hue + dice.normal(0, 12)) % 256, int(dice.integers(90, 256)), int(dice.integers(60, 256)))
        kinds[number % len(kinds)]((int(x), int(y), int(x + width), int(y + height)), color)
    pixels = np.asarray(image.convert("RGB"), np.float32)
    grain = dice.normal(0, 6 + 2 * (number % 3), (*pixels.shape[:2], 1))  # photographs have details, too
    return Image.fromarray((pixels + grain).clip(0, 255).astype(np.uint8))
