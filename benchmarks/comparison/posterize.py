"""A user's function, in a module without torch: a server's process imports the module."""

from __future__ import annotations

import numpy as np


def posterize(image: np.ndarray) -> np.ndarray:
    """Reduce colors, and add a vignette: an ordinary NumPy function that takes about a millisecond."""
    height, width = image.shape[:2]
    y, x = np.ogrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j]
    shade = (1 - 0.3 * (x * x + y * y)).astype(np.float32)
    return ((image & 0xE0) * shade[..., None]).astype(np.uint8)
