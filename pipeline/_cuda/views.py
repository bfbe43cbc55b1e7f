"""Arrays over memory that another object owns, and a callback when the last array is dropped."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline._cuda.errors import load_cupy

__all__ = ["DeviceView", "Lease", "lent_array"]

_KDL_CUDA = 2


class Lease:
    """Lease on memory. Every view holds it; it ends when the last view is dropped.

    Args:
        on_end: callback without arguments, called once: when the lease and all its views are gone, or by `end`. It
            runs in the thread that drops the last reference, so it must be quick and must not acquire a lock that
            a user of views may hold. It isn't called at interpreter exit.

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
    """Return a writable array over `memory`. The array and its views keep `owner` alive.

    Args:
        memory: bytes on the host.
        owner: object that releases the memory when it is finalized, such as a `Lease`. The last view may be dropped in
            any thread and, by garbage collection, within any allocation, so the release must not wait for a lock.

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
    """Base of NumPy arrays over lent memory. NumPy would skip a base that is an array itself."""

    __slots__ = ("__array_interface__", "owner", "source")

    def __init__(self, memory: npt.NDArray[np.uint8], owner: object) -> None:
        self.owner = owner
        self.source = memory
        interface = memory.__array_interface__
        interface["data"] = (interface["data"][0], False)
        self.__array_interface__ = interface


class DeviceView:
    """C-contiguous array in device memory, for `torch.as_tensor`, `torch.from_dlpack` or `cupy.asarray`.

    The arrays and tensors that they return keep `owner` alive. They don't synchronise: the caller must make the reading
    stream wait for the writer.

    Args:
        pointer: device address.
        shape: extents in elements.
        dtype: element type.
        device_id: the CUDA device.
        owner: any object; the view and the arrays over it keep this object alive.
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
        """Return a CuPy array over the memory, without a copy."""
        cupy = load_cupy()
        size = int(np.prod(self.shape)) * self.dtype.itemsize
        memory = cupy.cuda.UnownedMemory(self.pointer, size, self, self.device_id)
        return cupy.ndarray(self.shape, self.dtype, cupy.cuda.MemoryPointer(memory, 0))

    def __dlpack__(self, *, stream: int | None = None, **options: Any) -> Any:
        # -1: the consumer must not wait for CuPy's current stream, which is unrelated to the data.
        return self.as_cupy().__dlpack__(stream=-1, **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _KDL_CUDA, self.device_id
