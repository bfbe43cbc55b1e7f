"""Errors of the GPU primitives, wrappers for CuPy's errors, and a function that loads CuPy."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dali_proxy.pipeline._cuda.kernel_cache import guard_disk_cache
from dali_proxy.pipeline._requirements import too_old
from dali_proxy.pipeline.errors import DeviceError, PipelineError

_IMPORTED_BY = os.getpid()


class CudaError(PipelineError):
    """A call of the CUDA driver or runtime failed; the message names the call and CUDA's reason.

    Attributes:
        call: the failed operation, such as "cudaIpcOpenMemHandle" or "launch of resample_axis".
        reason: CUDA's error message.
    """

    def __init__(self, call: str, reason: str) -> None:
        super().__init__(f"{call} failed: {reason}")
        self.call = call
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.call, self.reason)


class KernelCompileError(CudaError):
    """NVRTC failed to compile a kernel; `reason` is its log."""


def load_cupy() -> Any:
    """Return the module `cupy`.

    Raises:
        DeviceError: CuPy isn't installed, is too old, or can't load its CUDA libraries.
    """
    guard_disk_cache()
    try:
        import cupy
    except ImportError as error:
        raise DeviceError(
            "the GPU needs CuPy, which can't be imported: install cupy-cuda12x or cupy-cuda13x, "
            f"the one that matches the driver ({error})"
        ) from error
    if reason := too_old("cupy-cuda12x") or too_old("cupy-cuda13x"):
        raise DeviceError(f"the GPU needs {reason}")
    return cupy


@contextmanager
def cuda_call(call: str) -> Iterator[None]:
    """Convert CuPy's errors inside the block to `CudaError`.

    Example:
        >>> with cuda_call("cudaMalloc"):  # doctest: +SKIP
        ...     pointer = cupy.cuda.runtime.malloc(1024)
    """
    cupy = load_cupy()
    try:
        yield
    except (
        cupy.cuda.runtime.CUDARuntimeError,
        cupy.cuda.driver.CUDADriverError,
        cupy.cuda.memory.OutOfMemoryError,
    ) as error:
        reason = str(error)
        if reason.startswith("cudaErrorInitializationError") and os.getpid() != _IMPORTED_BY:
            reason += "; CUDA doesn't work in a forked child of a process that has used it: start the child with spawn"
        raise CudaError(call, reason) from error


def context_failure(device_id: int) -> str:
    """Return CUDA's reason if the context of this process is lost, else an empty string.

    After an error in a kernel, such as an illegal address, each later call fails with the same error until the process
    ends.
    """
    cuda = load_cupy().cuda
    try:
        with cuda_call("cudaMemGetInfo"), cuda.Device(device_id):
            cuda.runtime.memGetInfo()
    except CudaError as error:
        return error.reason
    return ""


def require_device(device_id: int) -> None:
    """Check that a CUDA device exists.

    Raises:
        DeviceError: CuPy, the driver or the device is missing.
    """
    try:
        with cuda_call("cudaGetDeviceCount"):
            count = load_cupy().cuda.runtime.getDeviceCount()
    except CudaError as error:
        raise DeviceError(f"no usable CUDA device: {error.reason}") from error
    if not 0 <= device_id < count:
        raise DeviceError(f"device_id={device_id}, but the CUDA devices are 0 to {count - 1}")
