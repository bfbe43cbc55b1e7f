"""DLPack capsules, for example from ``torch.utils.dlpack.to_dlpack``.

NumPy and CuPy accept only objects with ``__dlpack__``, not the capsules themselves.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from dali_proxy.pipeline._arrays import Array
from dali_proxy.pipeline.errors import InputError

__all__ = ["CUDA", "as_host_array", "opened"]

CUDA = 2  # kDLCUDA in dlpack.h
#: Offset of the tensor's description (DLTensor) in the structure of a capsule, by the capsule's name.
_OFFSETS = {b"dltensor": 0, b"dltensor_versioned": 32}

_name = ctypes.pythonapi.PyCapsule_GetName
_name.restype, _name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


class _Capsule:
    """An object with ``__dlpack__``, which returns a given capsule. A consumer can use it once.

    Args:
        capsule: the capsule.

    Raises:
        InputError: the capsule doesn't contain a tensor, or was used before.
    """

    def __init__(self, capsule: Any) -> None:
        name = _name(capsule)
        if name not in _OFFSETS:
            raise InputError(f"a capsule of {name!r} doesn't contain a DLPack tensor, or it was already used")
        tensor = _pointer(capsule, name) + _OFFSETS[name]
        kind, number = (ctypes.c_int32 * 2).from_address(tensor + ctypes.sizeof(ctypes.c_void_p))
        self._device = (kind, number)
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device


def opened(data: Any) -> Any:
    """Wrap a capsule in an object with ``__dlpack__``; return other data unchanged."""
    return _Capsule(data) if type(data).__name__ == "PyCapsule" else data


def as_host_array(data: Any) -> Array:
    """Convert data on the CPU (arrays, DLPack, ``__array__``) to an array, without a copy if possible."""
    if type(data) is np.ndarray:
        return data
    if isinstance(data, bytes | bytearray | memoryview):
        return np.frombuffer(data, np.uint8)
    data = opened(data)
    if hasattr(data, "__dlpack__") and not hasattr(data, "__array__"):
        return np.from_dlpack(data)
    return np.asarray(data)
