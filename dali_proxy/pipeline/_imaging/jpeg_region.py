"""Decoding of windows of JPEGs with nvImageCodec, if it is installed: it skips rows and columns outside of the window.

Its CPU decoder is libjpeg-turbo, whose pixels are the same as those of the whole image, and needs neither a GPU nor a
driver. simplejpeg has no such function.
"""

from __future__ import annotations

import importlib.util
import os
from functools import cache
from itertools import repeat
from pathlib import Path

import numpy as np

from dali_proxy.pipeline._arrays import Bools, Bytes, Int64s
from dali_proxy.pipeline._imaging.native import compiled

Region = tuple[int, int, int, int]


def decode_region(encoded: memoryview, region: Region) -> Bytes | None:
    """Decode a window (y0, x0, height, width) of a JPEG to RGB.

    The window is inside the image, whose EXIF orientation isn't applied.

    Returns:
        The pixels; None if the whole image must be decoded: see `decode_regions`.
    """
    file = np.frombuffer(encoded, np.uint8)
    pixels = np.empty((*region[2:], 3), np.uint8)
    pointers, targets = (np.array([array.ctypes.data]) for array in (file, pixels))
    decoded = decode_regions(pointers, np.array([file.nbytes]), np.array([region]), targets)
    return pixels if decoded.all() else None


def decode_regions(pointers: Int64s, lengths: Int64s, regions: Int64s, targets: Int64s) -> Bools:
    """Decode a window of each of several JPEGs to RGB, on the calling thread, which releases the GIL once.

    Args:
        pointers: (N,) addresses of the files.
        lengths: (N,) their sizes in bytes.
        regions: (N, 4) first row and column, height and width, inside the image, whose EXIF orientation isn't applied.
        targets: (N,) addresses for ``height * width * 3`` bytes each.

    Returns:
        (N,): whether each was decoded. Otherwise, the whole image must be decoded: because nvImageCodec or the
        compiled module isn't installed, or doesn't support the image, because the window is tiny, or because the image
        is truncated, which is an error wherever the window is.
    """
    decoded = np.zeros(len(pointers), np.bool_)
    if len(pointers) and compiled is not None and _is_loaded():
        columns = map(np.ascontiguousarray, (pointers, lengths, regions, targets), repeat(np.int64))
        compiled.decode_jpeg_windows(*columns, decoded.view(np.uint8))
    return decoded


@cache
def _is_loaded() -> bool:
    """Return whether nvImageCodec is installed, in a version that the compiled module knows; load it."""
    try:
        found = importlib.util.find_spec("nvidia.nvimgcodec")
    except ImportError:
        found = None
    if compiled is None or found is None or found.origin is None:
        return False
    folder = os.fsencode(Path(found.origin).parent)
    if b":" in folder:  # it separates the folders of extensions
        return False
    return compiled.load_jpeg_decoder(folder + b"/libnvimgcodec.so.0", folder + b"/extensions")
