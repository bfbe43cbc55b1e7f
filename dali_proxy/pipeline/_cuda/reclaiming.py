"""Allocation of device memory when other allocators of this process hold what is free."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from dali_proxy.pipeline._cuda.errors import load_cupy

P = ParamSpec("P")
T = TypeVar("T")

_OUT_OF_MEMORY = 2  # cudaErrorMemoryAllocation


def reclaiming(allocate: Callable[P, T], says_full: Callable[[Exception], bool] | None = None) -> Callable[P, T]:
    """Return a function that allocates device memory, and tries once more after the GPU's memory was full.

    In between, the caching allocators of this process, those of CuPy and torch, free the memory that they don't use.
    `says_full` returns whether an exception means that the memory is full; by default, `is_full` does.
    """

    def allocate_or_reclaim(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return allocate(*args, **kwargs)
        except Exception as error:
            if not (says_full or is_full)(error):
                raise
        free_unused()
        return allocate(*args, **kwargs)

    return allocate_or_reclaim


def is_full(error: Exception) -> bool:
    """Return whether an exception of CuPy says that the GPU's memory is full."""
    cuda = load_cupy().cuda
    if isinstance(error, cuda.runtime.CUDARuntimeError):
        return bool(error.status == _OUT_OF_MEMORY)
    return isinstance(error, cuda.memory.OutOfMemoryError)


def free_unused() -> None:
    """Free the memory that the caching allocators of this process, those of CuPy and torch, don't use."""
    load_cupy().get_default_memory_pool().free_all_blocks()
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()
