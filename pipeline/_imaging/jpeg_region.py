"""Decoding of windows of JPEGs with nvImageCodec, if it is installed: it skips rows and columns outside of the window.

Its CPU decoder is libjpeg-turbo, whose pixels are the same as those of the whole image, and needs neither a GPU nor a
driver. simplejpeg has no such function.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["decode_region", "decode_regions"]

Pixels = npt.NDArray[np.uint8]
Region = tuple[int, int, int, int]

# Smallest extent of a window: libjpeg-turbo interpolates the colors of a single column differently.
_LEAST = 8
# Number of last bytes to search for the end marker.
_TAIL = 66
_END = b"\xff\xd9"

_local = threading.local()


def decode_region(encoded: memoryview, region: Region) -> Pixels | None:
    """Decode a window of a JPEG; see `decode_regions`."""
    return decode_regions([encoded], [region])[0]


def decode_regions(images: Sequence[memoryview], regions: Sequence[Region]) -> list[Pixels | None]:
    """Decode a window of each of several JPEGs to RGB, on the calling thread, which releases the GIL once.

    Args:
        images: the files.
        regions: (y0, x0, height, width), inside the image, whose EXIF orientation isn't applied.

    Returns:
        The pixels of each; None if the whole image must be decoded: because nvImageCodec isn't installed or can't
        decode it, because the window is tiny, or because the image is truncated, which is an error wherever the window
        is.
    """
    found: list[Pixels | None] = [None] * len(images)
    fits = [
        index
        for index, (encoded, (_, _, height, width)) in enumerate(zip(images, regions, strict=True))
        if min(height, width) >= _LEAST and _END in bytes(encoded[-_TAIL:])
    ]
    codec = _load_codec() if fits else None
    if codec is None:
        return found
    if not hasattr(_local, "decoder"):
        _local.decoder = codec.Decoder(
            device_id=codec.NVIMGCODEC_DEVICE_CPU_ONLY,
            max_num_cpu_threads=1,
            backends=[codec.Backend(codec.BackendKind.CPU_ONLY)],
            options=":fancy_upsampling=1",
        )
        _local.options = codec.DecodeParams(apply_exif_orientation=False, color_spec=codec.ColorSpec.SRGB)
    windows: dict[int, Any] = {}
    for index in fits:
        y, x, height, width = regions[index]
        with suppress(RuntimeError, MemoryError):
            stream = codec.CodeStream(np.frombuffer(images[index], np.uint8))
            region = codec.Region(y, x, y + height, x + width)
            windows[index] = stream.get_sub_code_stream(region=region)
    with suppress(RuntimeError, MemoryError):
        decoded = _local.decoder.decode(list(windows.values()), params=_local.options) if windows else []
        for index, image in zip(windows, decoded, strict=True):
            pixels = None if image is None else np.asarray(image)
            if pixels is not None and pixels.shape == (*regions[index][2:], 3) and pixels.dtype == np.uint8:
                found[index] = np.ascontiguousarray(pixels)
    return found


@cache
def _load_codec() -> Any:
    """Return the module `nvidia.nvimgcodec`, or None if it can't be imported."""
    try:
        return importlib.import_module("nvidia.nvimgcodec")
    except (ImportError, OSError):  # OSError: a wheel without a library that it loads
        return None
