"""Describe the machine of the measurements. Nothing here contains a path, a user name or a host name."""

from __future__ import annotations

import importlib.metadata
import os
import platform

import psutil
import torch

LIBRARIES = (
    "dali-proxy", "torch", "numpy", "pillow", "simplejpeg", "opencv-python-headless",
    "nvidia-dali-cuda130", "nvidia-dali-cuda120", "nvidia-nvimgcodec-cu13", "nvidia-nvimgcodec-cu12",
    "cupy-cuda13x", "cupy-cuda12x", "av", "torchcodec", "PyNvVideoCodec",
)  # fmt: skip


def describe_machine() -> dict[str, object]:
    """Describe the machine: processor, cores it may use, memory, GPUs, kernel."""
    gpus = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return {
        "processor": _processor(),
        "cores": core_count(),
        "memory_GiB": round(psutil.virtual_memory().total / 2**30, 1),
        "gpus": gpus,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
    }


def describe_versions() -> dict[str, str]:
    """Return the versions of Python and of the installed libraries that take part."""
    versions = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def core_count() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def short_name(device_id: int | None) -> str:
    """Return a short name of the device for file names: ``cpu-2-cores`` or ``nvidia-h200``."""
    if device_id is None:
        return f"cpu-{core_count()}-cores"
    return torch.cuda.get_device_name(device_id).lower().replace(" ", "-")


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:  # not Linux
        pass
    return platform.processor() or platform.machine()
