"""Functions of `nvidia.dali.backend`: devices, streams, memory, versions and schemas of operators."""

from __future__ import annotations

import os
from enum import IntEnum
from importlib import metadata
from pathlib import Path
from typing import Any

from dali_proxy.pipeline._catalog import all_schemas
from dali_proxy.pipeline._cuda.errors import load_cupy
from dali_proxy.pipeline._cuda.streams import existing_stream, new_stream
from dali_proxy.pipeline._declaration.names import schema_name
from dali_proxy.pipeline._operator_api.op_schema import OpSchema, find_schema
from dali_proxy.pipeline._operator_api.op_spec import OpSpec
from dali_proxy.pipeline.errors import ArgumentValueError, PipelineError, UnknownArgumentError
from dali_proxy.pipeline.tensors.dlpack import CUDA, opened

__all__ = [
    "CUDAStreamSynchronize",
    "CheckDLPackCapsule",
    "DLDeviceType",
    "GetCUDACurrentDevice",
    "GetCUDADeviceCount",
    "GetCUDAStreamDevice",
    "GetCudaVersion",
    "GetCufftVersion",
    "GetCxx11AbiFlag",
    "GetDeviceBufferGrowthFactor",
    "GetHostBufferGrowthFactor",
    "GetHostBufferShrinkThreshold",
    "GetNppVersion",
    "GetNvimgcodecVersion",
    "GetNvjpegVersion",
    "GetOpenCVVersion",
    "GetSchema",
    "GetSchemaAndTarget",
    "Init",
    "IsDriverInitialized",
    "LoadDefaultPlugins",
    "LoadDirectory",
    "LoadLibrary",
    "OpSchema",
    "OpSpec",
    "PreallocateDeviceMemory",
    "PreallocatePinnedMemory",
    "RegisteredCPUOps",
    "RegisteredGPUOps",
    "RegisteredMixedOps",
    "ReleaseUnusedMemory",
    "RestrictPinnedMemUsage",
    "SetBufferGrowthFactor",
    "SetCUDACurrentDevice",
    "SetDeviceBufferGrowthFactor",
    "SetHostBufferGrowthFactor",
    "SetHostBufferShrinkThreshold",
    "Stream",
    "TryGetSchema",
]


class DLDeviceType(IntEnum):
    """Types of devices in DLPack."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16
    kDLMAIA = 17


# Devices and streams --------------------------------------------------------------------------------------------------


def GetCUDADeviceCount() -> int:
    """Return the number of GPUs; 0 without a driver."""
    try:
        return int(load_cupy().cuda.runtime.getDeviceCount())
    except Exception:  # noqa: BLE001 - no driver, no CuPy
        return 0


def IsDriverInitialized() -> bool:
    """Return whether CUDA can be used."""
    return GetCUDADeviceCount() > 0


def GetCUDACurrentDevice() -> int:
    """Return the number of the current GPU."""
    return int(load_cupy().cuda.runtime.getDevice())


def SetCUDACurrentDevice(device_id: int) -> None:
    """Make a GPU the current one of this thread."""
    load_cupy().cuda.Device(device_id).use()


class Stream:
    """A new CUDA stream.

    Args:
        device_id: number of the GPU; None for the current one.
    """

    def __init__(self, device_id: int | None = None) -> None:
        self._device_id = GetCUDACurrentDevice() if device_id is None else device_id
        with load_cupy().cuda.Device(self._device_id):
            self._stream = new_stream()

    @property
    def device_id(self) -> int:
        """Number of the GPU."""
        return self._device_id

    @property
    def handle(self) -> int:
        """The handle of the stream in CUDA."""
        return int(self._stream.ptr)

    ptr = handle

    def __int__(self) -> int:
        return self.handle


def CUDAStreamSynchronize(stream: Any) -> None:
    """Wait until all work on a stream is done."""
    existing_stream(stream).synchronize()


def GetCUDAStreamDevice(stream: Any) -> int:
    """Return the number of the GPU to which a stream belongs."""
    found = getattr(stream, "device_id", -1)
    return GetCUDACurrentDevice() if found is None or found < 0 else int(found)


def CheckDLPackCapsule(ptr: Any) -> tuple[bool, bool]:
    """Return whether an object is a DLPack capsule, and whether its data is on a GPU."""
    if type(ptr).__name__ != "PyCapsule":
        return False, False
    try:
        return True, opened(ptr).__dlpack_device__()[0] == CUDA
    except PipelineError:
        return False, False


# Memory ---------------------------------------------------------------------------------------------------------------


def _setting(variable: str, default: float) -> float:
    return float(os.environ.get(variable) or default)


class _Buffers:
    """Settings of DALI's buffers. They are stored only: this project chooses the sizes of buffers itself."""

    device_growth = _setting("DALI_DEVICE_BUFFER_GROWTH_FACTOR", _setting("DALI_BUFFER_GROWTH_FACTOR", 1.1))
    host_growth = _setting("DALI_HOST_BUFFER_GROWTH_FACTOR", _setting("DALI_BUFFER_GROWTH_FACTOR", 1.1))
    shrink_threshold = _setting("DALI_HOST_BUFFER_SHRINK_THRESHOLD", 0.5)


def GetDeviceBufferGrowthFactor() -> float:
    """Return the number that `SetDeviceBufferGrowthFactor` set."""
    return _Buffers.device_growth


def GetHostBufferGrowthFactor() -> float:
    """Return the number that `SetHostBufferGrowthFactor` set."""
    return _Buffers.host_growth


def GetHostBufferShrinkThreshold() -> float:
    """Return the number that `SetHostBufferShrinkThreshold` set."""
    return _Buffers.shrink_threshold


def SetDeviceBufferGrowthFactor(factor: float) -> None:
    """Store a number between 1 and 4. It changes nothing: the sizes of buffers are automatic."""
    _Buffers.device_growth = _checked(factor, 1, 4, "Growth factor must be between 1 and 4.")


def SetHostBufferGrowthFactor(factor: float) -> None:
    """Store a number between 1 and 4. It changes nothing: the sizes of buffers are automatic."""
    _Buffers.host_growth = _checked(factor, 1, 4, "Growth factor must be between 1 and 4.")


def SetBufferGrowthFactor(factor: float) -> None:
    """Call `SetDeviceBufferGrowthFactor` and `SetHostBufferGrowthFactor`."""
    SetDeviceBufferGrowthFactor(factor)
    SetHostBufferGrowthFactor(factor)


def SetHostBufferShrinkThreshold(threshold: float) -> None:
    """Store a number between 0 and 1. It changes nothing: the sizes of buffers are automatic."""
    message = "Shrink threshold must be between 0 (never shrink) and 1 (always shrink)."
    _Buffers.shrink_threshold = _checked(threshold, 0, 1, message)


def _checked(value: float, low: float, high: float, message: str) -> float:
    if not low <= value <= high:
        raise ArgumentValueError(message)
    return float(value)


def RestrictPinnedMemUsage() -> bool:
    """Return whether the environment variable `DALI_RESTRICT_PINNED_MEM` is set. It has no other effect."""
    return os.environ.get("DALI_RESTRICT_PINNED_MEM", "0") not in ("", "0")


def PreallocateDeviceMemory(bytes: int, device_id: int) -> None:
    """Fill the memory pool of a GPU, so that it can provide that many bytes without asking the driver."""
    cupy = load_cupy()
    with cupy.cuda.Device(device_id):
        if bytes:
            cupy.cuda.alloc(bytes)  # the pool keeps the block


def PreallocatePinnedMemory(bytes: int) -> None:
    """Fill the pool of pinned host memory, so that it can provide that many bytes without asking the driver."""
    if bytes:
        load_cupy().cuda.alloc_pinned_memory(bytes)  # the pool keeps the block


def ReleaseUnusedMemory() -> None:
    """Free the unused blocks of the memory pools of all GPUs and of pinned host memory."""
    for device_id in range(GetCUDADeviceCount()):
        cupy = load_cupy()
        with cupy.cuda.Device(device_id):
            cupy.get_default_memory_pool().free_all_blocks()
            cupy.get_default_pinned_memory_pool().free_all_blocks()


# Versions of libraries ------------------------------------------------------------------------------------------------


def GetCudaVersion() -> int:
    """Return the version of CUDA that the driver supports, such as 13000; 0 without a driver."""
    try:
        return int(load_cupy().cuda.runtime.driverGetVersion())
    except Exception:  # noqa: BLE001 - no CuPy
        return 0


def GetCufftVersion() -> int:
    """Return -1: the library isn't used."""
    return -1


def GetNppVersion() -> int:
    """Return -1: the library isn't used."""
    return -1


def GetNvjpegVersion() -> int:
    """Return -1, as DALI does: nvJPEG is part of CUDA."""
    return -1


def GetNvimgcodecVersion() -> int:
    """Return the version of nvImageCodec, 900 for 0.9.0; -1 if it isn't installed."""
    names = [f"nvidia-nvimgcodec-cu{major}" for major in (13, 12)]
    for name in names:
        try:
            parts = metadata.version(name).split(".")
        except metadata.PackageNotFoundError:
            continue
        major, minor, patch = (int(part) for part in (*parts, "0", "0")[:3])
        return major * 1000 + minor * 100 + patch
    return -1


def GetOpenCVVersion() -> str:
    """Return the version of OpenCV."""
    import cv2

    return str(cv2.__version__)


def GetCxx11AbiFlag() -> int:
    """Return 1, as DALI does."""
    return 1


# Operators ------------------------------------------------------------------------------------------------------------


def TryGetSchema(name: str, follow_aliases: bool = False) -> OpSchema | None:
    """Return the schema of an operator, such as "readers__File"; None if it doesn't exist.

    Args:
        name: name of the operator.
        follow_aliases: whether to return the schema of the operator that a deprecated name refers to.
    """
    schema = find_schema(name)
    if schema is not None and follow_aliases and schema.IsDeprecated():
        return find_schema(schema.DeprecatedInFavorOf())
    return schema


def GetSchema(name: str, follow_aliases: bool = False) -> OpSchema:
    """Return the schema of an operator, as `TryGetSchema` does.

    Raises:
        UnknownArgumentError: the operator doesn't exist.
    """
    schema = TryGetSchema(name, follow_aliases)
    if schema is None:
        raise UnknownArgumentError(f"Schema for operator '{name}' not registered")
    return schema


def GetSchemaAndTarget(name: str) -> tuple[OpSchema, OpSchema]:
    """Return the schema of an operator, and that of the operator to which a deprecated name refers."""
    return GetSchema(name), GetSchema(name, follow_aliases=True)


def RegisteredCPUOps(internal_ops: bool = False) -> list[str]:
    """Return the names of the operators that run on the CPU."""
    return _registered("cpu", internal_ops)


def RegisteredGPUOps(internal_ops: bool = False) -> list[str]:
    """Return the names of the operators that run on a GPU."""
    return _registered("gpu", internal_ops)


def RegisteredMixedOps(internal_ops: bool = False) -> list[str]:
    """Return the names of the operators that read data on the CPU and return it on a GPU."""
    return _registered("mixed", internal_ops)


def _registered(device: str, internal_ops: bool) -> list[str]:
    found = (schema for schema in all_schemas() if device in schema.devices and (internal_ops or not schema.hidden))
    return sorted(schema_name(schema.name) for schema in found)


def cpu_ops() -> set[str]:
    """Return the names of the operators that run on the CPU."""
    return set(RegisteredCPUOps())


def gpu_ops() -> set[str]:
    """Return the names of the operators that run on a GPU."""
    return set(RegisteredGPUOps())


def mixed_ops() -> set[str]:
    """Return the names of the operators that read data on the CPU and return it on a GPU."""
    return set(RegisteredMixedOps())


# Plugins --------------------------------------------------------------------------------------------------------------


def Init(*specs: Any) -> None:
    """Do nothing: nothing needs to be initialized."""


def LoadDefaultPlugins() -> None:
    """Do nothing, because plugins don't exist here."""


def LoadLibrary(lib_path: str, global_symbols: bool = False, allow_fail: bool = False) -> None:
    """Raise an error: a plugin is a library for NVIDIA DALI's executor, which can't be used here.

    Args:
        lib_path: path of the library.
        global_symbols: accepted for compatibility.
        allow_fail: whether to do nothing instead.

    Raises:
        PipelineError: always, except with `allow_fail`.
    """
    if not allow_fail:
        missing = "" if Path(lib_path).exists() else f"{lib_path}: cannot open shared object file; and "
        raise PipelineError(
            f"Failed to load library {lib_path}: {missing}dali-proxy can't run compiled operators of NVIDIA DALI: "
            "use fn.python_function, or add an operator (docs/new-operator.md)"
        )


def LoadDirectory(dir_path: str, global_symbols: bool = False, allow_fail: bool = False) -> None:
    """Call `LoadLibrary` for the files ``{dir_path}/*/libdali_*.so``."""
    for library in sorted(Path(dir_path).glob("*/libdali_*.so")):
        LoadLibrary(str(library), global_symbols, allow_fail)
