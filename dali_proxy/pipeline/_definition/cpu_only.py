"""The request that pipelines for a GPU run on the CPU, for this process and the processes that it starts."""

from __future__ import annotations

import ctypes
import os
import warnings

from dali_proxy.pipeline._graph import SourceLocation
from dali_proxy.pipeline._graph.location import warn_caller
from dali_proxy.pipeline._graph.on_cpu import MovedGraph
from dali_proxy.pipeline.errors import ArgumentValueError

#: The environment variable: "cpu" moves pipelines to the CPU, "gpu" (or nothing) leaves them as they are declared.
VARIABLE = "DALI_PROXY_DEVICE"

_DEVICES = ("cpu", "gpu")


def request_device(device: str) -> None:
    """Set the device of pipelines that are created later: "cpu", or "gpu" for the devices that they declare.

    Raises:
        ArgumentValueError: `device` is neither.
    """
    os.environ[VARIABLE] = _checked(device, "device")


def cpu_is_requested() -> bool:
    """Return whether pipelines that are created now must run on the CPU.

    Raises:
        ArgumentValueError: the environment variable has a value other than "cpu" or "gpu".
    """
    device = os.environ.get(VARIABLE, "")
    return bool(device) and _checked(device, f"the environment variable {VARIABLE}") == "cpu"


def warn_of_move(moved: MovedGraph, title: str, device_id: int | None) -> None:
    """Tell the user what changed in a pipeline that was moved to the CPU.

    Args:
        moved: the changes.
        title: name of the function that describes the graph, or "".
        device_id: the pipeline's GPU.
    """
    name = title.removesuffix(".define_graph")
    ignored = "" if device_id in (None, -1) else f"\n  ignored: device_id={device_id}"
    at = SourceLocation.from_caller()
    message = f"the pipeline{name and ' '}{name} is declared for a GPU, but runs on the CPU as requested:"
    warnings.warn_explicit(message + ignored + moved.report(), RuntimeWarning, at.file or "<unknown>", at.line)


def warn_of_absent_gpu(device_id: int | None) -> None:
    """Warn that `device_id` of a pipeline whose operators run on the CPU names a GPU, if this machine has none."""
    if device_id in (None, -1) or _has_driver():
        return
    warn_caller(
        f"device_id={device_id} has no effect: this process has no CUDA device, and all operators of the pipeline run "
        "on the CPU. Pass device_id=None",
        RuntimeWarning,
    )


def _has_driver() -> bool:
    """Return whether there may be a usable GPU. CUDA isn't initialized, because this process may fork later."""
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0") in ("", "-1"):
        return False
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def _checked(device: str, what: str) -> str:
    if device not in _DEVICES:
        raise ArgumentValueError(f'{what} must be "cpu" or "gpu", not {device!r}')
    return device
