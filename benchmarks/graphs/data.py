"""Inputs of the graphs: a folder of JPEGs, and batches of volumes, clips and boxes in memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from benchmarks.operators.data import sample_image

Array = npt.NDArray[Any]

FILES = 256


@dataclass(frozen=True)
class ImageSize:
    """The size of the JPEGs.

    Attributes:
        widths: smallest and largest width in pixels.
        heights: the same for the height.
        quality: quality of the JPEGs, which gives their number of bytes.
    """

    widths: tuple[int, int]
    heights: tuple[int, int]
    quality: int


#: About 50 KB and 120 KB. With the smaller ones, what a batch costs apart from its images shows more.
IMAGE_SIZES = {
    "small": ImageSize((380, 560), (285, 420), 93),
    "large": ImageSize((500, 640), (400, 480), 97),
}
#: Different samples of the inputs in memory, which repeat.
DISTINCT = 16
BOXES = 20


def write_images(folder: Path, files: int = FILES, size: str = "large") -> None:
    """Write JPEGs of one of `IMAGE_SIZES`."""
    chosen = IMAGE_SIZES[size]
    (least, most), (low, high) = chosen.widths, chosen.heights

    def write(number: int) -> None:
        width = widths[number]
        height = low + (width - least) * (high - low) // (most - least)
        options = [cv2.IMWRITE_JPEG_QUALITY, chosen.quality]
        encoded = cv2.imencode(".jpg", sample_image(number, height, width), options)[1]
        (folder / f"{number:05d}.jpg").write_bytes(encoded.tobytes())

    widths = np.random.default_rng(0).integers(least, most, files, endpoint=True).tolist()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(write, range(files)))


def volumes() -> list[Array]:
    """Return float32 volumes, channels first."""
    rng = np.random.default_rng(0)
    return [rng.normal(1, 2, (1, 64, 64, 64)).astype(np.float32) for _ in range(DISTINCT)]


def clips() -> list[Array]:
    """Return clips of 16 frames that move to the right."""
    images = [sample_image(number, 128, 171) for number in range(DISTINCT)]
    return [np.stack([np.roll(image, 2 * frame, axis=1) for frame in range(16)]) for image in images]


def boxes() -> list[Array]:
    """Return boxes: left, top, right, bottom from 0 to 1."""
    rng = np.random.default_rng(0)
    corners = rng.uniform(0, 0.7, (DISTINCT, BOXES, 2))
    return list(np.concatenate([corners, corners + rng.uniform(0.1, 0.3, corners.shape)], axis=2).astype(np.float32))


def classes() -> list[Array]:
    """Return the class of each box."""
    return list(np.random.default_rng(0).integers(0, 80, (DISTINCT, BOXES)).astype(np.int32))


def repeat(samples: list[Array], batch_size: int) -> Callable[[], list[Array]]:
    """Return a callback of `external_source` that returns the same batch again and again."""
    batch = [samples[number % len(samples)] for number in range(batch_size)]
    return lambda: batch
