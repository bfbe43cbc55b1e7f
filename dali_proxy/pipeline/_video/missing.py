"""Finds the library that decodes videos, reports if it is missing, and handles differences of its versions."""

from __future__ import annotations

from functools import cache
from typing import Any

from dali_proxy.pipeline._requirements import too_old
from dali_proxy.pipeline.errors import DeviceError


@cache
def require_av() -> Any:
    """Return the module `av`.

    Raises:
        DeviceError: PyAV is missing, too old, or can't be loaded.
    """
    try:
        import av
    except ImportError as error:
        raise DeviceError(
            f"decoding videos needs PyAV, which can't be imported ({error}): pip install 'dali-proxy[video]'"
        ) from error
    if reason := too_old("av"):
        raise DeviceError(f"decoding videos needs {reason}: pip install --upgrade 'dali-proxy[video]'")
    return av


@cache
def any_title(av: Any) -> dict[str, str]:
    """Return the options of ``av.open`` that allow titles in any encoding; PyAV needs none since version 19."""
    return {"metadata_errors": "replace"} if int(av.__version__.split(".")[0]) < 19 else {}
