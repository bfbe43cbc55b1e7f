"""Buffers for intermediate results, one set per thread.

Newly allocated megabytes for every image cost as much time in page faults as the arithmetic that fills them, so each
thread keeps its buffers. Results of functions are never stored here.
"""

from __future__ import annotations

import math
import threading

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._arrays import Array, Bytes

# Larger buffers are freed after use: a huge image must not occupy memory in every thread.
KEPT_BYTES = 32 << 20

_local = threading.local()


def scratch(name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
    """Return an uninitialised array that is valid until this thread asks for the same name again.

    Arrays of different names never share memory.
    """
    item = dtype if isinstance(dtype, np.dtype) else np.dtype(dtype)
    size = math.prod(shape) * item.itemsize
    if size > KEPT_BYTES:
        return np.empty(shape, item)
    buffers: dict[str, Bytes] = _local.__dict__
    buffer = buffers.get(name)
    if buffer is None or buffer.nbytes < size:
        # A quarter more than requested, so that slowly growing images don't cause an allocation every time.
        buffer = buffers[name] = np.zeros(min(size + size // 4, KEPT_BYTES), np.uint8)
    return np.ndarray(shape, item, buffer)  # three times as fast as slicing, view and reshape
