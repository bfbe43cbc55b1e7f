"""`Stream`: CUDA streams of dynamic mode."""

from __future__ import annotations

import threading
from typing import Any

from dali_proxy.pipeline._cuda.streams import existing_stream, new_stream
from dali_proxy.pipeline._definition.cpu_only import cpu_is_requested
from dali_proxy.pipeline._dynamic.devices import current_gpu
from dali_proxy.pipeline.errors import ArgumentValueError

_CREATE = object()


class Stream:
    """A CUDA stream: a new one, or one of another library. `stream` creates it.

    Args:
        stream: a stream of CuPy or torch, an object with ``__cuda_stream__``, or a handle; by default a new stream.
        device_id: number of the GPU of a new stream; by default, CUDA's current device.

    Raises:
        ArgumentValueError: the stream belongs to another GPU.
    """

    create_new = _CREATE
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, *, stream: Any = _CREATE, device_id: int | None = None) -> None:
        import cupy

        current = current_gpu()
        if stream is _CREATE:
            self._device_id = current if device_id is None else device_id
            with cupy.cuda.Device(self._device_id):
                self.stream = new_stream(0)
        else:
            if hasattr(stream, "__cuda_stream__"):
                _, handle = stream.__cuda_stream__()
                self._owner, stream = stream, int(handle)
            found = getattr(stream, "device_index", getattr(stream, "device_id", -1))
            self._device_id = current if found is None or int(found) < 0 else int(found)
            if device_id is not None and device_id != self._device_id:
                raise ArgumentValueError(f"the stream is on GPU {self._device_id}, not on GPU {device_id}")
            self.stream = existing_stream(stream)

    @property
    def device_id(self) -> int:
        """Number of the GPU."""
        return self._device_id

    @property
    def handle(self) -> int:
        """The handle of the stream."""
        return int(self.stream.ptr)

    def synchronize(self) -> None:
        """Wait until all work of the stream is complete."""
        self.stream.synchronize()

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Stream):
            return (self.handle, self.device_id) == (other.handle, other.device_id)
        handle = getattr(other, "cuda_stream", getattr(other, "ptr", other))
        return isinstance(handle, int) and handle == self.handle

    def __repr__(self) -> str:
        return f"Stream(handle=0x{self.handle:x}, device_id={self.device_id})"


class _Current(threading.local):
    def __init__(self) -> None:
        self.streams: dict[int, Stream] = {}


_CURRENT = _Current()
_DEFAULTS: dict[int, Stream] = {}


def stream(*, stream: Any = _CREATE, device_id: int | None = None) -> Stream | None:
    """Return a stream: a new one, or one of another library. Has the arguments of `Stream`.

    Returns None for None, and if the environment variable `DALI_PROXY_DEVICE` is "cpu".
    """
    if stream is None or isinstance(stream, Stream):
        return stream
    if cpu_is_requested():
        return None
    return Stream(stream=stream, device_id=device_id)


def _device(device_id: int | None) -> int:
    """Return the number of a GPU, of CUDA's current one for None, or -1 without a GPU."""
    if device_id is not None:
        return device_id
    try:
        return current_gpu()
    except Exception:  # noqa: BLE001 - no CuPy, no driver or no GPU
        return -1


def get_default_stream(device_id: int | None = None) -> Stream | None:
    """Return the stream of threads that have no other one, or None if each context creates its own."""
    return _DEFAULTS.get(_device(device_id))


def set_default_stream(cuda_stream: Any, /, device_id: int | None = None) -> None:
    """Set the stream of threads that have no other one; None removes it."""
    wrapped = stream(stream=cuda_stream, device_id=device_id)
    if wrapped is None:
        _DEFAULTS.pop(_device(device_id), None)
    else:
        _DEFAULTS[wrapped.device_id] = wrapped


def set_thread_stream(cuda_stream: Any) -> None:
    """Set the stream of this thread; None removes it."""
    wrapped = stream(stream=cuda_stream)
    if wrapped is None:
        _CURRENT.streams.pop(_device(None), None)
    else:
        _CURRENT.streams[wrapped.device_id] = wrapped


def stream_of(device_id: int | None) -> Stream | None:
    """Return the stream that contexts of this thread use on a GPU; None for a new one."""
    number = _device(device_id)
    return _CURRENT.streams.get(number) or _DEFAULTS.get(number)
