"""Decoding of windows of JPEGs with nvImageCodec, if it is installed: it skips rows and columns outside of the window.

Its CPU decoder is libjpeg-turbo, whose pixels are the same as those of the whole image, and needs neither a GPU nor a
driver. simplejpeg has no such function.
"""

from __future__ import annotations

import importlib
import threading
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["decode_region"]

# Smallest extent of a window: libjpeg-turbo interpolates the colors of a single column differently.
_LEAST = 8
# Number of last bytes to search for the end marker.
_TAIL = 66
_END = b"\xff\xd9"

_local = threading.local()


def decode_region(encoded: memoryview, region: tuple[int, int, int, int]) -> npt.NDArray[np.uint8] | None:
    """Decode a window of a JPEG to RGB.

    Args:
        encoded: the file.
        region: (y0, x0, height, width), inside the image, whose EXIF orientation isn't applied.

    Returns:
        The pixels; None if the whole image must be decoded, because nvImageCodec isn't installed or can't decode it,
        because the window is tiny, or because the image is truncated: that is an error, wherever the window is.
    """
    y, x, height, width = region
    if min(height, width) < _LEAST or _END not in bytes(encoded[-_TAIL:]):
        return None
    codec = _load_codec()
    if codec is None:
        return None
    if not hasattr(_local, "decoder"):
        _local.decoder = codec.Decoder(
            device_id=codec.NVIMGCODEC_DEVICE_CPU_ONLY,
            max_num_cpu_threads=1,
            backends=[codec.Backend(codec.BackendKind.CPU_ONLY)],
            options=":fancy_upsampling=1",
        )
        _local.options = codec.DecodeParams(apply_exif_orientation=False, color_spec=codec.ColorSpec.SRGB)
    try:
        stream = codec.CodeStream(np.frombuffer(encoded, np.uint8))
        window = stream.get_sub_code_stream(region=codec.Region(y, x, y + height, x + width))
        image = _local.decoder.decode(window, params=_local.options)
    except RuntimeError:
        return None
    return None if image is None else np.asarray(image)


@cache
def _load_codec() -> Any:
    """Return the module `nvidia.nvimgcodec`, or None if it can't be imported."""
    try:
        return importlib.import_module("nvidia.nvimgcodec")
    except (ImportError, OSError):  # OSError: a wheel without a library that it loads
        return None
