"""The drawn data of the benchmarks: texts and images whose sizes are spread like those of public mixtures."""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image

from dali_proxy import PatchGrid

__all__ = ["GRID", "Drawn", "draw", "draw_images"]

GRID = PatchGrid()
_FEWEST, _MOST = 28, 2000  # patches of an image
_TEXTS_ONLY = 0.4  # share of samples without an image


@dataclass(frozen=True)
class Drawn:
    """Samples with at most one image.

    Attributes:
        lengths: tokens in the language model, (N,).
        patches: patches in the vision tower, (N,); 0 without an image.
    """

    lengths: npt.NDArray[np.int64]
    patches: npt.NDArray[np.int64]


def draw(count: int, seed: int = 0) -> Drawn:
    """Draw texts of 16 to 2,048 tokens, of which 60 % have an image of 28 to 2,000 patches."""
    generator = np.random.default_rng(seed)
    text = np.clip(generator.lognormal(5.2, 0.9, count), 16, 2048).astype(np.int64)
    patches = np.exp(generator.uniform(np.log(_FEWEST), np.log(_MOST), count)).astype(np.int64) // 4 * 4
    patches[generator.random(count) < _TEXTS_ONLY] = 0
    return Drawn(text + patches // 4, patches)


def draw_images(count: int, seed: int = 0) -> list[bytes]:
    """Return JPEG files of photographs' kind, of 28 to 2,000 patches and of aspect ratios up to 2."""
    generator = np.random.default_rng(seed)
    files = []
    for pixels in np.exp(generator.uniform(np.log(_FEWEST), np.log(_MOST), count)) * 14 * 14:
        ratio = np.exp(generator.uniform(-np.log(2), np.log(2)))
        height, width = max(28, round((pixels * ratio) ** 0.5)), max(28, round((pixels / ratio) ** 0.5))
        coarse = generator.integers(0, 256, (height // 24 + 2, width // 24 + 2, 3)).astype(np.uint8)
        smooth = np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC), np.int16)
        grain = generator.normal(0, 6, (height, width, 1))
        file = io.BytesIO()
        Image.fromarray((smooth + grain).clip(0, 255).astype(np.uint8)).save(file, "JPEG", quality=90)
        files.append(file.getvalue())
    return files
