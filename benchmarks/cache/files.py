"""Encoded images for the benchmark, all different, drawn from noise of several scales for realistic sizes."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

#: Height and width, extension and options of OpenCV's encoder, by kind.
KINDS: dict[str, tuple[tuple[int, int], str, list[int]]] = {
    "jpeg": ((375, 500), ".jpg", [cv2.IMWRITE_JPEG_QUALITY, 90]),
    "png": ((375, 500), ".png", []),
    "webp": ((375, 500), ".webp", [cv2.IMWRITE_WEBP_QUALITY, 90]),
    "jpeg2000": ((375, 500), ".jp2", []),
    "4k": ((2160, 3840), ".jpg", [cv2.IMWRITE_JPEG_QUALITY, 90]),
}


def draw_files(kind: str, count: int) -> list[Bytes]:
    """Return the contents of image files."""
    (height, width), extension, options = KINDS[kind]
    numbers = np.random.default_rng(height)
    files = []
    for _ in range(count):
        _, encoded = cv2.imencode(extension, draw_image((height, width), numbers), options)
        files.append(np.frombuffer(encoded.tobytes(), np.uint8))
    return files


def draw_image(size: tuple[int, int], numbers: np.random.Generator) -> Bytes:
    """Return an image with noise of several scales, HWC."""
    height, width = size
    image = np.zeros((height, width, 3), np.float32)
    for scale in (4, 16, 64):
        noise = numbers.normal(0, 10 * scale**0.5, (height // scale + 2, width // scale + 2, 3)).astype(np.float32)
        image += cv2.resize(noise, (width, height), interpolation=cv2.INTER_CUBIC)
    return np.clip(image + 128, 0, 255).astype(np.uint8)
