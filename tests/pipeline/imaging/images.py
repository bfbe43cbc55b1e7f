"""Generated images, and their encodings."""

from __future__ import annotations

import io
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image

Array = npt.NDArray[Any]


def smooth(height: int = 30, width: int = 40, channels: int = 3, seed: int = 0, highest: int = 255) -> Array:
    """Create an image like a photograph: large soft patches of colour."""
    coarse = np.random.default_rng(seed).integers(0, highest + 1, (6, 8, channels)).astype(np.float32)
    large = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC).reshape(height, width, channels)
    return np.clip(large, 0, highest).astype(np.uint8 if highest == 255 else np.uint16)


def pillow(pixels: Any, kind: str, **options: Any) -> bytes:
    image = Image.fromarray(np.squeeze(pixels)) if isinstance(pixels, np.ndarray) else pixels
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def opencv(pixels: Array, extension: str, *options: int) -> bytes:
    return cv2.imencode(extension, pixels, list(options))[1].tobytes()


def with_orientation(pixels: Array, kind: str, orientation: int) -> bytes:
    if kind == "TIFF":
        return pillow(pixels, kind, tiffinfo={274: orientation})
    exif = Image.Exif()
    exif[274] = orientation
    return pillow(pixels, kind, exif=exif)


def encodings() -> dict[str, bytes]:
    """Return one small image in many formats."""
    rgb, rgba, deep = smooth(), smooth(channels=4), smooth(highest=65535)
    gray = rgb[:, :, 0]
    image = Image.fromarray(rgb)
    return {
        "jpeg 420": pillow(rgb, "JPEG"),
        "jpeg 422": pillow(rgb, "JPEG", subsampling=1),
        "jpeg 444": pillow(rgb, "JPEG", subsampling=0),
        "jpeg 440": opencv(rgb, ".jpg", cv2.IMWRITE_JPEG_SAMPLING_FACTOR, 0x121111),
        "jpeg 411": opencv(rgb, ".jpg", cv2.IMWRITE_JPEG_SAMPLING_FACTOR, 0x411111),
        "jpeg rgb": pillow(rgb, "JPEG", keep_rgb=True),
        "jpeg progressive": pillow(rgb, "JPEG", progressive=True),
        "jpeg gray": pillow(gray, "JPEG"),
        "jpeg cmyk": pillow(image.convert("CMYK"), "JPEG"),
        "png rgb": pillow(rgb, "PNG"),
        "png rgba": pillow(rgba, "PNG"),
        "png gray": pillow(gray, "PNG"),
        "png palette": pillow(image.quantize(16), "PNG"),
        "png transparent palette": pillow(image.quantize(16), "PNG", transparency=0),
        "png 1 bit": pillow(image.convert("1"), "PNG"),
        "png 16 rgb": opencv(deep, ".png"),
        "png 16 gray": opencv(deep[:, :, 0], ".png"),
        "bmp rgb": pillow(rgb, "BMP"),
        "bmp palette": pillow(image.quantize(16), "BMP"),
        "webp lossy": pillow(rgb, "WEBP"),
        "webp lossless": pillow(rgba, "WEBP", lossless=True, exact=True),
        "tiff rgb": pillow(rgb, "TIFF", compression="tiff_lzw"),
        "tiff rgba": pillow(rgba, "TIFF"),
        "tiff 16 rgb": opencv(deep, ".tiff"),
        "tiff 16 gray": opencv(deep[:, :, 0], ".tiff"),
        "tiff float": pillow(gray.astype(np.float32) / 255, "TIFF"),
        "ppm": pillow(rgb, "PPM"),
        "ppm 16": opencv(deep, ".ppm"),
        "ppm of 100": b"P6\n2 2\n100\n" + bytes(range(0, 96, 8)),
        "pgm text": b"P2\n# a comment\n2 2\n15\n1 2 3 15\n",
        "pbm": pillow(image.convert("1"), "PPM"),
        "jpeg 2000": pillow(rgb, "JPEG2000"),
    }
