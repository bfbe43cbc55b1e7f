"""Checks of this machine for ``dali-proxy doctor``."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

NEEDED = (
    "torch", "numpy", "pillow", "opencv-python-headless", "simplejpeg", "msgpack", "msgspec", "cloudpickle", "psutil",
    "tqdm",
)  # fmt: skip

Status = Literal["ok", "missing", "optional"]


@dataclass(frozen=True)
class Check:
    """The result of one check.

    Attributes:
        name: Name of the component.
        status: ``"ok"``; ``"missing"``: required, but missing; ``"optional"``: missing, but only needed for a part of
            the features.
        detail: A version, or advice.
    """

    name: str
    status: Status
    detail: str


def examine() -> Iterator[Check]:
    """Check Python, the machine and the libraries.

    Yields:
        The checks, one at a time: some take a second because they import a library.
    """
    yield Check("python", "ok" if sys.version_info >= (3, 10) else "missing", platform.python_version())
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    yield Check("cores", "ok", str(cores))
    if hasattr(os, "memfd_create"):
        yield Check("shared memory", "ok", "memfd")
    else:
        yield Check("shared memory", "optional", "memfd_create is missing: named shared memory is used")
    for name in NEEDED:
        yield _library(name, "missing", f"pip install {name}")
    yield _compiled_loops()
    yield _library("scikit-image", "optional", "the demo uses its photographs: pip install 'dali-proxy[demo]'")
    yield _library("av", "optional", "needed to decode videos: pip install 'dali-proxy[video]'")
    yield _library("soundfile", "optional", "needed to decode audio: pip install 'dali-proxy[audio]'")
    problem = gpu_problem()
    yield Check("gpu", "ok", gpu_name()) if problem is None else Check("gpu", "optional", problem)
    if problem is None:
        yield _videos_on_gpu()


def gpu_problem(device_id: int = 0) -> str | None:
    """Return the reason why a GPU can't be used.

    Args:
        device_id: Number of the GPU.

    Returns:
        None if it can be used, else the reason in a few words.
    """
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


def _findable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # a parent package is missing
        return False


def _compiled_loops() -> Check:
    from pipeline._native import FOLDERS, OUT_OF_DATE, find_compiled

    if None not in [find_compiled(folder) for folder in FOLDERS]:
        return Check("compiled loops", "ok", "resizing, normalising, colours of videos, reading and copying of batches")
    if OUT_OF_DATE:
        hint = f"out of date: install again (older than their sources: {', '.join(sorted(OUT_OF_DATE))})"
        return Check("compiled loops", "optional", hint)
    hint = (
        "not built: resizing on the CPU takes twice as long, and GPU pipelines are slowed down by Python; install a C "
        "compiler, then install dali-proxy again"
    )
    return Check("compiled loops", "optional", hint)


def _videos_on_gpu() -> Check:
    from pipeline._video.nvdec import require_nvdec
    from pipeline.errors import DeviceError

    try:
        require_nvdec()
    except DeviceError as error:
        return Check("nvdec", "optional", str(error))
    return Check("nvdec", "ok", "videos can be decoded on the GPU")


def _library(name: str, otherwise: Status, hint: str) -> Check:
    try:
        return Check(name, "ok", importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Check(name, otherwise, f"not installed: {hint}")
