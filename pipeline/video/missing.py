"""Finds the library that decodes videos, and says what is missing."""

from __future__ import annotations

from functools import cache
from typing import Any

from pipeline.errors import DeviceError

__all__ = ["require_av", "require_nvdec"]


@cache
def require_av() -> Any:
    """Return the module `av`.

    Raises:
        DeviceError: PyAV is missing, or can't be loaded.
    """
    try:
        import av
    except ImportError as error:
        raise DeviceError(
            f"videos are decoded by PyAV, which can't be imported ({error}): pip install 'dali-proxy[video]'"
        ) from error
    return av


def require_nvdec() -> Any:
    """Return the module `av`, when its FFmpeg can decode on NVIDIA GPUs.

    Whether there is a GPU, and a driver with NVDEC's library, shows when the first video is opened.

    Raises:
        DeviceError: PyAV is missing, or its FFmpeg was built without CUDA.
    """
    av = require_av()
    from av.codec.hwaccel import hwdevices_available

    if "cuda" not in hwdevices_available():
        raise DeviceError(
            "videos can't be decoded on the GPU: the FFmpeg of this PyAV was built without CUDA; the wheels of av on "
            "PyPI have it"
        )
    return av
