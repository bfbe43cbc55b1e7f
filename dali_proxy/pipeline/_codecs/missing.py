"""Finds the libraries for decoding on the GPU, and reports missing ones."""

from __future__ import annotations

import ctypes
import importlib.util
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from dali_proxy.pipeline.errors import DeviceError


@cache
def missing_codec_reason() -> str | None:
    """Return why images can't be decoded on the GPU, or None if the libraries exist.

    Checks the libraries only, not the GPU. Loads libnvjpeg, so that nvImageCodec finds it wherever pip installed it:
    without libnvjpeg, nvImageCodec would silently decode JPEGs on the CPU. Doesn't load nvImageCodec itself, because
    that takes a second.
    """
    try:
        codec = importlib.util.find_spec("nvidia.nvimgcodec")
    except ModuleNotFoundError:  # the package `nvidia` doesn't exist either
        codec = None
    if codec is None:
        return (
            "nvImageCodec is not installed: install nvidia-nvimgcodec-cu12[nvjpeg] or "
            "nvidia-nvimgcodec-cu13[nvjpeg], the one that matches the driver"
        )
    try:
        major = _cuda_of_codec()
    except DeviceError as error:
        return str(error)
    if _open_nvjpeg(major) is not None:
        return None
    wheel = "nvidia-nvjpeg" if major >= 13 else f"nvidia-nvjpeg-cu{major}"
    tried = ", ".join(_candidates(major))
    return f"libnvjpeg for CUDA {major} is missing: install {wheel} or the CUDA toolkit (tried {tried})"


def require_codec() -> Any:
    """Return the module `nvidia.nvimgcodec`.

    Raises:
        DeviceError: a library is missing (see `missing_codec_reason`) or can't be loaded.
    """
    reason = missing_codec_reason()
    if reason is not None:
        raise DeviceError(f"can't decode images on the GPU: {reason}")
    return _load_codec()


def _load_codec() -> Any:
    try:
        from nvidia import nvimgcodec
    except (ImportError, OSError) as error:
        raise DeviceError(f"nvImageCodec is installed but can't be loaded: {error}") from error
    return nvimgcodec


def _cuda_of_codec() -> int:
    """Return the major version of CUDA that nvImageCodec was built for, from the name of its distribution."""
    from importlib import metadata  # its import is slow, and hosts without a GPU don't need it

    for major in (13, 12):
        with suppress(metadata.PackageNotFoundError):
            metadata.distribution(f"nvidia-nvimgcodec-cu{major}")
            return major
    return int(_load_codec().__cuda_version__) // 1000


def load_nvjpeg() -> ctypes.CDLL:
    """Return libnvjpeg for the CUDA version that nvImageCodec was built for.

    Raises:
        DeviceError: a library is missing (see `missing_codec_reason`).
    """
    reason = missing_codec_reason()
    library = None if reason else _open_nvjpeg(_cuda_of_codec())
    if library is None:
        raise DeviceError(f"can't decode images on the GPU: {reason}")
    return library


@cache
def _open_nvjpeg(major: int) -> ctypes.CDLL | None:
    for name in _candidates(major):
        try:
            return ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            continue
    return None


def _candidates(major: int) -> list[str]:
    soname = f"libnvjpeg.so.{major}"
    spec = importlib.util.find_spec("nvidia")
    folders = [Path(folder) for folder in (spec.submodule_search_locations or [])] if spec else []
    wheels = [folder / name / "lib" / soname for folder in folders for name in (f"cu{major}", "nvjpeg")]
    return [*(str(path) for path in wheels if path.exists()), soname, f"/usr/local/cuda/lib64/{soname}"]
