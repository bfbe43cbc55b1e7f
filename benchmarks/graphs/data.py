"""Inputs of the graphs: a folder of JPEGs, and batches of volumes, clips and boxes in memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from benchmarks.operators.data import sample_image

Array = npt.NDArray[Any]

FILES = 256
#: Smallest and largest width of the images in pixels.
WIDTHS = (500, 640)
#: With this quality, the JPEGs have about 120 KB.
QUALITY = 97
#: Different samples of the inputs in memory, which repeat.
DISTINCT = 16
BOXES = 20


def write_images(folder: Path, files: int = FILES) -> None:
    """Write JPEGs of about 120 KB, 500 x 400 to 640 x 480 pixels."""

    def write(number: int) -> None:
        width, height = sizes[number]
        encoded = cv2.imencode(".jpg", sample_image(number, height, width), [cv2.IMWRITE_JPEG_QUALITY, QUALITY])[1]
        (folder / f"{number:05d}.jpg").write_bytes(encoded.tobytes())

    widths = np.random.default_rng(0).integers(*WIDTHS, files, endpoint=True)
    sizes = [(int(width), 400 + int(width - WIDTHS[0]) * 80 // 140) for width in widths]
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
