"""The request that pipelines for a GPU run on the CPU, for this process and the processes that it starts."""

from __future__ import annotations

import os
import warnings

from pipeline._graph import SourceLocation
from pipeline._graph.on_cpu import MovedGraph
from pipeline.errors import ArgumentValueError

__all__ = ["VARIABLE", "cpu_is_requested", "request_device", "warn_of_move"]

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


def _checked(device: str, what: str) -> str:
    if device not in _DEVICES:
        raise ArgumentValueError(f'{what} must be "cpu" or "gpu", not {device!r}')
    return device
