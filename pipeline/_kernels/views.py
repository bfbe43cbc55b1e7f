"""Arrays over device memory that another object owns, and a notification when the last one is dropped."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline._kernels.errors import load_cupy

__all__ = ["DeviceView", "Lease", "lent_array"]

_KDL_CUDA = 2


class Lease:
    """A lease on memory: every view holds it, and it ends when the last view is dropped.

    Args:
        on_end: called once, without arguments, when the lease and all its views are gone or `end` is called. It may
            run in any thread that drops the last reference, so it must be quick and take no lock that a user of
            views may hold. It isn't called at interpreter exit.

    Example:
        >>> ended = []
        >>> lease = Lease(lambda: ended.append(True))
        >>> view = lease.view(0x1000, (2, 3), "float32", device_id=0)
        >>> del lease
        >>> ended
        []
        >>> del view
        >>> ended
        [True]
    """

    def __init__(self, on_end: Callable[[], object]) -> None:
        self._finalizer = weakref.finalize(self, on_end)
        self._finalizer.atexit = False

    def view(self, pointer: int, shape: tuple[int, ...], dtype: npt.DTypeLike, device_id: int) -> DeviceView:
        """Return a C-contiguous view of memory that the lease covers."""
        return DeviceView(pointer, shape, dtype, device_id, self)

    def end(self) -> None:
        """End the lease now. Idempotent."""
        self._finalizer()


def lent_array(memory: npt.NDArray[np.uint8], owner: object) -> npt.NDArray[np.uint8]:
    """Return a writable array over `memory` that keeps `owner` alive, as do all views of it.

    Args:
        memory: bytes on the host.
        owner: object that gives the memory back when it dies, such as a `Lease`. The last view may die in any thread
            and within any allocation (garbage collection), so this must not wait for a lock.

    Example:
        >>> ended = []
        >>> view = lent_array(np.zeros(4, np.uint8), Lease(lambda: ended.append(True)))[1:].view()
        >>> ended
        []
        >>> del view
        >>> ended
        [True]
    """
    return np.asarray(_HostView(memory, owner))


class _HostView:
    """The base of NumPy's arrays over lent memory. NumPy would skip a base that is an array itself."""

    __slots__ = ("__array_interface__", "owner", "source")

    def __init__(self, memory: npt.NDArray[np.uint8], owner: object) -> None:
        self.owner = owner
        self.source = memory
        interface = memory.__array_interface__
        interface["data"] = (interface["data"][0], False)
        self.__array_interface__ = interface


class DeviceView:
    """A C-contiguous array in device memory, for `torch.as_tensor`, `torch.from_dlpack` or `cupy.asarray`.

    What they return keeps `owner` alive. No synchronisation is asked of them: the stream that reads must have been
    made to wait for the writer.

    Args:
        pointer: device address.
        shape: in elements.
        dtype: element type.
        device_id: the CUDA device.
        owner: any object; the view and arrays over it keep it alive.
    """

    __slots__ = ("__weakref__", "device_id", "dtype", "owner", "pointer", "shape")

    def __init__(
        self, pointer: int, shape: tuple[int, ...], dtype: npt.DTypeLike, device_id: int, owner: object
    ) -> None:
        self.pointer = pointer
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.device_id = device_id
        self.owner = owner

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.pointer, False),
            "strides": None,
            "stream": None,
            "version": 3,
        }

    def as_cupy(self) -> Any:
        """Return a CuPy array over the memory, with no copy."""
        cupy = load_cupy()
        size = int(np.prod(self.shape)) * self.dtype.itemsize
        memory = cupy.cuda.UnownedMemory(self.pointer, size, self, self.device_id)
        return cupy.ndarray(self.shape, self.dtype, cupy.cuda.MemoryPointer(memory, 0))

    def __dlpack__(self, *, stream: int | None = None, **options: Any) -> Any:
        # -1: the consumer must not be made to wait for CuPy's current stream, which has nothing to do with the data.
        return self.as_cupy().__dlpack__(stream=-1, **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _KDL_CUDA, self.device_id
