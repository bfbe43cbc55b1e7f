"""Checks of the GPU: its driver, CUDA, and the libraries that use it."""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

from dali_proxy._doctor.check import Check

_DRIVER = Path("/proc/driver/nvidia/version")
_NODE = Path("/dev/nvidiactl")
_CODEC = (0, 9)  # oldest nvImageCodec


def check_gpu() -> Iterator[Check]:
    """Check the driver and, if torch is installed, CUDA, nvImageCodec, the GPU and its video decoder."""
    yield driver(_driver_version(), _driver_cuda(), _NODE.exists())
    if not _findable("torch"):
        return
    yield cuda(_torch_cuda(), _driver_cuda(), _majors("cupy-cuda"))
    yield _image_codec()
    problem = gpu_problem()
    yield Check("gpu", "ok", gpu_name()) if problem is None else Check("gpu", "optional", problem)
    if problem is None:
        yield _videos()


def driver(version: str, supports: int | None, has_node: bool) -> Check:
    """Check the driver.

    Args:
        version: its version; empty if it isn't loaded.
        supports: newest CUDA that it supports, such as 13000; None without its library.
        has_node: whether its device files exist.
    """
    if version and supports is not None and has_node:
        return Check("driver", "ok", f"{version}, for CUDA up to {_dotted(supports)}")
    if version:
        absent = "device files are" if supports else "library libcuda.so.1 is"
        return Check(
            "driver",
            "warning",
            f"{version} is loaded, but its {absent} missing here",
            "start the container with --gpus all and the NVIDIA Container Toolkit",
        )
    return Check(
        "driver", "optional", "there is no NVIDIA driver: pipelines run on the CPU", "for a GPU, install its driver"
    )


def cuda(torch_cuda: str, supports: int | None, cupy: list[int]) -> Check:
    """Check that the driver, torch and CuPy are for the same CUDA.

    Args:
        torch_cuda: CUDA version that torch was built for, such as "13.0"; empty if it has none.
        supports: newest CUDA that the driver supports, such as 13000; None without a driver.
        cupy: major versions of CUDA that the installed CuPy packages are for.
    """
    if not torch_cuda:
        return Check(
            "cuda", "optional", "torch was built without CUDA", "for a GPU, install torch for CUDA: pytorch.org"
        )
    major = int(torch_cuda.partition(".")[0])
    if supports is not None and major > supports // 1000:
        return Check(
            "cuda",
            "warning",
            f"torch needs CUDA {torch_cuda}, but the driver supports {_dotted(supports)} at most",
            f"update the driver, or install torch for CUDA {supports // 1000}",
        )
    if len(cupy) > 1:
        return Check(
            "cuda", "warning", "several CuPy packages are installed, which break each other", "uninstall all but one"
        )
    if cupy and cupy != [major]:
        return Check(
            "cuda",
            "warning",
            f"torch is for CUDA {torch_cuda}, but CuPy for CUDA {cupy[0]}",
            f"pip uninstall cupy-cuda{cupy[0]}x; pip install 'dali-proxy[cuda{major}]'",
        )
    return Check("cuda", "ok", f"{torch_cuda} (torch)")


def gpu_problem(device_id: int = 0) -> str | None:
    """Return in a few words why a GPU can't be used; None if it can."""
    import torch

    if not torch.cuda.is_available():
        if torch.version.cuda is None:
            return "this torch was built without CUDA"
        return "torch doesn't find a GPU"
    if device_id >= torch.cuda.device_count():
        return f"GPU {device_id} doesn't exist: torch finds {torch.cuda.device_count()}, numbered from 0"
    for module, package in (("cupy", "CuPy"), ("nvidia.nvimgcodec", "nvImageCodec")):
        if not _findable(module):
            return f"{package} is not installed (pip install 'dali-proxy[cuda13]')"
    return None


def gpu_name(device_id: int = 0) -> str:
    """Return the name of a GPU, its memory and the CUDA version."""
    import torch

    properties = torch.cuda.get_device_properties(device_id)
    return f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB, CUDA {torch.version.cuda}"


def _driver_version() -> str:
    try:
        found = re.search(r"Module.*?\s(\d+\.[\d.]+)", _DRIVER.read_text())
    except OSError:
        return ""
    return found[1] if found else ""


def _driver_cuda() -> int | None:
    """Return the newest CUDA that the driver supports, such as 13000; None if its library is missing."""
    version = ctypes.c_int()
    try:
        failed = ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return None
    return None if failed else version.value


def _torch_cuda() -> str:
    import torch

    return torch.version.cuda or ""


def _majors(prefix: str) -> list[int]:
    """Return the major versions of CUDA of the installed packages whose names are such as cupy-cuda13x."""
    names = {(distribution.metadata["Name"] or "").lower() for distribution in importlib.metadata.distributions()}
    found = (re.fullmatch(rf"{re.escape(prefix)}(\d+)x?", name) for name in names)
    return sorted(int(match[1]) for match in found if match)


def _image_codec() -> Check:
    majors = _majors("nvidia-nvimgcodec-cu")
    if not majors:
        advice = "to decode images on a GPU: pip install 'dali-proxy[cuda13]' or, for a driver of CUDA 12, [cuda12]"
        return Check("nvImageCodec", "optional", "not installed", advice)
    version = importlib.metadata.version(f"nvidia-nvimgcodec-cu{majors[-1]}")
    if tuple(map(int, version.split(".")[:2])) < _CODEC:
        return Check(
            "nvImageCodec", "warning", f"{version} is too old", f"pip install -U 'dali-proxy[cuda{majors[-1]}]'"
        )
    return Check("nvImageCodec", "ok", f"{version} for CUDA {majors[-1]}")


def _videos() -> Check:
    from dali_proxy.pipeline._video.nvdec import require_nvdec
    from dali_proxy.pipeline.errors import DeviceError

    try:
        require_nvdec()
    except DeviceError as error:
        advice = "in a container: NVIDIA_DRIVER_CAPABILITIES=all, or compute,utility,video"
        return Check("nvdec", "optional", str(error), advice)
    return Check("nvdec", "ok", "videos can be decoded on the GPU")


def _dotted(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


def _findable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # a parent package is missing
        return False
