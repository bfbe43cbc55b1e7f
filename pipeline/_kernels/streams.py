"""Creation of CUDA streams."""

from __future__ import annotations

from typing import Any

from pipeline._concurrency.forking import keep_in_child
from pipeline._kernels.errors import load_cupy

__all__ = ["new_stream"]


def new_stream(priority: int | None = None) -> Any:
    """Return a new non-blocking `cupy.cuda.Stream` of the current device.

    CUDA doesn't work in forked children, so they never destroy the stream.

    Args:
        priority: priority of the stream; smaller numbers run first. None for CUDA's default.
    """
    stream = load_cupy().cuda.Stream(non_blocking=True, priority=priority)
    keep_in_child(stream)
    return stream
