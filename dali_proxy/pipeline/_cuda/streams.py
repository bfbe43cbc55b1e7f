"""CUDA streams: creation, and work beside captures of CUDA graphs."""

from __future__ import annotations

import ctypes
import threading
from contextlib import suppress
from functools import cache
from typing import Any

from dali_proxy.pipeline._concurrency.forking import keep_in_child
from dali_proxy.pipeline._cuda.errors import load_cupy

_THREAD_LOCAL = 1  # CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
_NOT_READY = 600  # CUDA_ERROR_NOT_READY
_ignoring = threading.local()

HANDLES = ("ptr", "cuda_stream", "value")
"""Attributes with the handle of a stream: of CuPy and DALI, of torch, of a `ctypes.c_void_p`."""


def ignore_captures() -> None:
    """Let the calling thread use CUDA while other threads capture CUDA graphs.

    By default, a capture of the training forbids all threads of its process to allocate memory or to wait for events,
    and such a call fails the capture, too.
    """
    if not getattr(_ignoring, "now", False):
        _ignoring.now = True
        mode = ctypes.c_int(_THREAD_LOCAL)
        with suppress(OSError):  # no driver: then nothing is captured
            ctypes.CDLL("libcuda.so.1").cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))


def new_stream(priority: int | None = None) -> Any:
    """Return a new non-blocking `cupy.cuda.Stream` of the current device. Smaller priorities run first.

    CUDA doesn't work in forked children, so they never destroy the stream.
    """
    stream = _with_handle("Stream")(non_blocking=True, priority=priority)
    keep_in_child(stream)
    return stream


def existing_stream(stream: Any) -> Any:
    """Return a stream of CuPy, torch or DALI, a handle, or a `ctypes.c_void_p` as a stream of CuPy."""
    if hasattr(stream, "wait_event") and hasattr(stream, "ptr"):
        return stream
    handles = (getattr(stream, name) for name in HANDLES if hasattr(stream, name))
    return _with_handle("ExternalStream")(int(next(handles, stream) or 0))


def is_idle(stream: Any) -> bool:
    """Return whether a stream has no work left. A GPU in an error state has none.

    Unlike CuPy, this asks without the GIL: the driver doesn't answer while another thread waits inside it for a kernel.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:  # no driver, so no work
        return True
    return bool(driver.cuStreamQuery(ctypes.c_void_p(stream.ptr)) != _NOT_READY)


@cache
def _with_handle(name: str) -> type[Any]:
    """Return a class of CuPy's streams whose objects convert to their handle with ``int()``, as DALI's streams do."""
    base = getattr(load_cupy().cuda, name)
    return type(name, (base,), {"__int__": lambda self: int(self.ptr), "handle": property(lambda self: self.ptr)})
