"""A stand-in for CuPy on a machine without a GPU: device memory is host memory, and kernels run on the host.

`installed` puts it in the place of the module `cupy`. Streams execute their work at once, in the calling thread. It has
the functions that pipelines need for images; a host compiler builds the kernels. There can be several devices: as in
CUDA, each thread has a current one, and events and launches of another device than the stream's are errors.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import types
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from dali_proxy.pipeline._cuda import compiler, streams
from tests.pipeline.kernels import emulator

_CTYPES = {
    "i4": "int",
    "u4": "unsigned int",
    "i8": "long long",
    "u8": "unsigned long long",
    "f4": "float",
    "f8": "double",
}


class Array:
    """An array in "device" memory: `cupy.ndarray`. It isn't a NumPy array, so host code that takes it for one fails."""

    def __init__(self, shape: Any, dtype: Any = float, memptr: Any = None, strides: Any = None) -> None:
        kind = np.dtype(dtype)
        shape = (shape,) if isinstance(shape, int) else shape
        memptr = memptr or _allocators[-1](int(np.prod(shape)) * kind.itemsize)
        interface = {"shape": tuple(shape), "typestr": kind.str, "data": (memptr.ptr, False), "strides": strides}
        holder = types.SimpleNamespace(__array_interface__={**interface, "version": 3}, memory=memptr)
        self._host, self._device_id = np.asarray(holder), _current_device()

    @classmethod
    def over(cls, host: Any) -> Array:
        """Return the array over the memory of a NumPy array."""
        array = cls.__new__(cls)
        array._host, array._device_id = host, _current_device()
        return array

    def __getattr__(self, name: str) -> Any:
        if name not in ("shape", "dtype", "ndim", "strides", "nbytes", "size", "flags", "itemsize"):
            raise AttributeError(name)
        return getattr(self._host, name)

    def __len__(self) -> int:
        return len(self._host)

    def __getitem__(self, index: Any) -> Array:
        return Array.over(self._host[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        self._host[index] = value._host if isinstance(value, Array) else value

    def set(self, values: Any) -> None:
        self._host[...] = values

    def reshape(self, *shape: Any) -> Array:
        return Array.over(self._host.reshape(*shape))

    def transpose(self, *axes: Any) -> Array:
        return Array.over(self._host.transpose(*axes))

    def astype(self, dtype: Any, copy: bool = True) -> Array:
        return Array.over(self._host.astype(dtype, copy=copy))

    def copy(self) -> Array:
        return Array.over(self._host.copy())

    def get(self, stream: Any = None) -> Any:
        return self._host.copy()

    @property
    def data(self) -> Any:
        address = self._host.__array_interface__["data"][0]
        owner = getattr(getattr(self._pointer, "mem", None), "_owner", None)
        memory = types.SimpleNamespace(ptr=address, size=self._host.nbytes, _owner=owner)
        return types.SimpleNamespace(ptr=address, mem=memory)

    @property
    def device(self) -> Any:
        pointer = self._pointer
        return Device(self._device_id if pointer is None else pointer.device_id)

    @property
    def _pointer(self) -> Any:
        base = self._host
        while isinstance(base.base, np.ndarray):
            base = base.base
        return getattr(base.base, "memory", None)

    @property
    def __cuda_array_interface__(self) -> Any:
        return {**self._host.__array_interface__, "version": 3}


Array.__module__ = "cupy"


class Device:
    def __init__(self, number: int | None = None) -> None:
        self.id = _current_device() if number is None else number
        self._before: list[int] = []

    def use(self) -> None:
        _thread.device = self.id

    def synchronize(self) -> None: ...

    def __enter__(self) -> Device:
        self._before.append(_current_device())
        self.use()
        return self

    def __exit__(self, *error: object) -> None:
        _thread.device = self._before.pop()


_thread = threading.local()


def _current_device() -> int:
    return getattr(_thread, "device", 0)


class CudaRuntimeError(RuntimeError):
    def __init__(self, status: int, reason: str = "") -> None:
        super().__init__(reason)
        self.status = status


def _check_device(device_id: int, stream: Any) -> None:
    if stream is not None and stream.device_id not in (None, device_id):
        raise CudaRuntimeError(400, f"cudaErrorInvalidResourceHandle: GPU {device_id}, a stream of {stream.device_id}")


class Stream:
    null: Any = None
    done = True

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.ptr = id(self)
        self.device_id: int | None = _current_device()

    def synchronize(self) -> None: ...

    def wait_event(self, event: Any) -> None: ...

    def record(self, event: Any = None) -> Any:
        event = event or Event()
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        _check_device(_current_device(), self)
        return self

    def __exit__(self, *error: object) -> None: ...


Stream.null = Stream()
Stream.null.device_id = None  # that of the current device


class Event:
    done = True
    ptr = 0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._device_id = _current_device()

    def record(self, stream: Any = None) -> None:
        _check_device(self._device_id, stream)

    def synchronize(self) -> None: ...


_freed: deque[Any] = deque(maxlen=4096)


class Memory:
    """An allocation. Freed memory is overwritten, so that work that uses it too late has a wrong result."""

    def __init__(self, size: int) -> None:
        self.array = np.full(max(1, size), 0xA5, np.uint8)  # not zero, as on a GPU
        self.size, self.ptr, self.device_id = size, self.array.ctypes.data, _current_device()

    def __del__(self) -> None:
        self.array.fill(0xDD)
        _freed.append(self.array)  # the process can still access it


class Pointer:
    """`cupy.cuda.MemoryPointer`."""

    def __init__(self, memory: Any, offset: int = 0) -> None:
        self.mem, self.ptr, self.device_id = memory, memory.ptr + offset, memory.device_id


class Unowned:
    """`cupy.cuda.UnownedMemory`."""

    def __init__(self, ptr: int, size: int, owner: Any, device_id: int = 0) -> None:
        assert size >= 0
        self.ptr, self.size, self._owner, self.device_id = ptr, size, owner, device_id


class RawModule:
    """Kernels that a host compiler has built."""

    def __init__(self, code: str, options: tuple[str, ...] = ()) -> None:
        self._code, self._options = code, tuple(each for each in options if each.startswith("-D"))

    def get_function(self, name: str) -> Any:
        def kernel(grid: Any, block: Any, arguments: Any) -> None:
            values, kinds = [], []
            for argument in arguments:
                plain = isinstance(argument, int)
                kinds.append("void*" if plain else _CTYPES[argument.dtype.str[1:]])
                values.append(np.array([argument], np.int64) if plain else np.array([argument]))
            library = emulator.build_code(self._code, self._options, name, tuple(kinds))
            pointers = (ctypes.c_void_p * len(values))(*[value.ctypes.data for value in values])
            library.emulate(pointers, grid[0], grid[1], block[0])

        return kernel


_allocators: list[Any] = [lambda size: Pointer(Memory(size))]


@contextmanager
def _using_allocator(allocator: Any) -> Iterator[None]:
    _allocators.append(allocator)
    try:
        yield
    finally:
        _allocators.remove(allocator)


def _memcpy(target: int, source: int, nbytes: int, kind: int, stream: int = 0) -> None:
    ctypes.memmove(target, source, nbytes)


def _module(devices: int = 1) -> types.ModuleType:
    class CompileException(Exception): ...

    allocated: dict[int, Any] = {}

    def malloc(nbytes: int) -> int:
        memory = Memory(nbytes)
        allocated[memory.ptr] = memory
        return memory.ptr

    runtime = types.SimpleNamespace(
        CUDARuntimeError=CudaRuntimeError,
        getDeviceCount=lambda: devices,
        getDevice=_current_device,
        memcpyAsync=_memcpy,
        memcpyHostToDevice=1,
        memcpyDeviceToHost=2,
        memcpyDeviceToDevice=3,
        hostRegister=lambda *arguments: None,
        hostUnregister=lambda *arguments: None,
        memGetInfo=lambda: (1 << 30, 1 << 31),
        malloc=malloc,
        free=allocated.pop,
        eventInterprocess=4,
        eventDisableTiming=2,
        eventCreateWithFlags=lambda flags: 1,
        eventQuery=lambda event: 0,
        eventDestroy=lambda event: None,
        ipcGetMemHandle=lambda pointer: bytes(64),
        ipcGetEventHandle=lambda event: bytes(64),
        deviceGetPCIBusId=lambda device: "0000:00:00.0",
    )
    cuda = types.SimpleNamespace(
        Device=Device,
        Stream=Stream,
        ExternalStream=Stream,
        Event=Event,
        MemoryPointer=Pointer,
        UnownedMemory=Unowned,
        alloc=lambda size: _allocators[-1](size),
        get_allocator=lambda: _allocators[-1],
        using_allocator=_using_allocator,
        alloc_pinned_memory=lambda size: np.empty(size, np.uint8),
        get_current_stream=lambda *arguments: Stream.null,
        runtime=runtime,
        driver=types.SimpleNamespace(CUDADriverError=CudaRuntimeError),
        memory=types.SimpleNamespace(OutOfMemoryError=MemoryError),
        compiler=types.SimpleNamespace(CompileException=CompileException),
    )
    module = types.ModuleType("cupy")
    module.__dict__.update(
        cuda=cuda,
        ndarray=Array,
        uint8=np.uint8,
        RawModule=RawModule,
        empty=Array,
        get_default_memory_pool=lambda: types.SimpleNamespace(free_all_blocks=lambda: None),
        asarray=lambda data, order=None: data if isinstance(data, Array) else Array.over(np.array(data)),
        random=types.SimpleNamespace(
            RandomState=lambda *arguments, **options: types.SimpleNamespace(seed=lambda number: None),
            get_random_state=lambda: None,
            set_random_state=lambda state: None,
        ),
        copyto=lambda target, source: np.copyto(target._host, source._host),
        concatenate=lambda arrays: Array.over(np.concatenate([each.get() for each in arrays])),
        stack=lambda arrays: Array.over(np.stack([each.get() for each in arrays])),
    )
    sys.modules["cupy.cuda"] = cuda  # type: ignore[assignment]
    return module


@contextmanager
def installed(devices: int = 1) -> Iterator[None]:
    """Replace the module `cupy` inside the block, with a number of GPUs."""
    before = {name: sys.modules.get(name) for name in ("cupy", "cupy.cuda")}
    sys.modules["cupy"] = _module(devices)
    try:
        yield
    finally:
        streams._with_handle.cache_clear()
        compiler._kernels.clear()
        for name, value in before.items():
            if value is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = value
