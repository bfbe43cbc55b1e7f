"""CUDA streams of ours."""

from __future__ import annotations

from typing import Any

from pipeline._concurrency.forking import keep_in_child
from pipeline._kernels.errors import load_cupy

__all__ = ["new_stream"]


def new_stream(priority: int | None = None) -> Any:
    """Return a new `cupy.cuda.Stream` of the current device, which waits for no other one.

    CUDA doesn't work in forked children, so these never destroy it.

    Args:
        priority: smaller numbers come first; None for the usual one.
    """
    made = load_cupy().cuda.Stream(non_blocking=True, priority=priority)
    keep_in_child(made)
    return made
