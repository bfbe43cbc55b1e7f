"""Errors of the GPU primitives, wrappers for CuPy's errors, and a function that loads CuPy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pipeline._kernels.kernel_cache import check_kernel_cache
from pipeline.errors import DeviceError, PipelineError

__all__ = ["CudaError", "KernelCompileError", "cuda_call", "load_cupy", "require_device"]


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
        DeviceError: CuPy isn't installed or can't load its CUDA libraries.
    """
    check_kernel_cache()
    try:
        import cupy
    except ImportError as error:
        raise DeviceError(
            "the GPU needs CuPy, which can't be imported: install cupy-cuda12x or cupy-cuda13x, "
            f"the one that matches the driver ({error})"
        ) from error
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
        raise CudaError(call, str(error)) from error


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
