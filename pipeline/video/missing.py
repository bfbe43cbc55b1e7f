"""Finds the library that decodes videos, and says what is missing."""

from __future__ import annotations

from functools import cache
from typing import Any

from pipeline.errors import DeviceError

__all__ = ["require_av"]


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
