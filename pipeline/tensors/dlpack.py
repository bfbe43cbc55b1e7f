"""DLPack capsules, as ``torch.utils.dlpack.to_dlpack`` makes them: NumPy and CuPy take only objects that give one."""

from __future__ import annotations

import ctypes
from typing import Any

from pipeline.errors import InputError

__all__ = ["CUDA", "opened"]

CUDA = 2  # the number of a device on the GPU, in dlpack.h
#: Where the description of the tensor begins in what a capsule of some name points to.
_OFFSETS = {b"dltensor": 0, b"dltensor_versioned": 32}

_name = ctypes.pythonapi.PyCapsule_GetName
_name.restype, _name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


class _Capsule:
    """A capsule that gives itself away, once.

    Args:
        capsule: it.

    Raises:
        InputError: it holds no tensor, or was used before.
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
    """Return a capsule as an object with ``__dlpack__``; anything else as it is."""
    return _Capsule(data) if type(data).__name__ == "PyCapsule" else data
