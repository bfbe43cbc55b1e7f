"""A kernel launch as a value: the kernel, its tables and its grid.

Launchers plan with NumPy alone and pass the launches to `KernelContext.run`, so tests of plans need no GPU.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from dali_proxy.pipeline._arrays import Array
from dali_proxy.pipeline.errors import PipelineError

THREADS = 256
#: The dtype of fields of tables that are addresses of device memory. It is equal to int64.
ADDRESS = np.dtype("i8", metadata={"address": True})
#: Maximum number of samples per launch: the limit of CUDA's second grid dimension.
MAX_SAMPLES = 65535

#: Names of the element types in common.cuh.
CTYPES: dict[np.dtype[Any], str] = {
    np.dtype(name): ctype
    for name, ctype in {
        "bool": "bool",
        "uint8": "uint8",
        "uint16": "uint16",
        "uint32": "uint32",
        "uint64": "uint64",
        "int8": "int8",
        "int16": "int16",
        "int32": "int32",
        "int64": "int64",
        "float16": "float16",
        "float32": "float32",
        "float64": "float64",
    }.items()
}


@dataclass(frozen=True, eq=False)
class Launch:
    """One launch of one kernel.

    Attributes:
        file: .cu file in the folder `cuda`.
        kernel: name of its `extern "C"` function.
        defines: macros of the compilation, as (name, value).
        tables: structured arrays; the kernel's first arguments are pointers to copies of them on the device. Their
            fields with addresses have the dtype `ADDRESS`.
        scalars: NumPy scalars; the kernel's remaining arguments.
        grid: blocks in (x, y); y counts the samples.
    """

    file: str
    kernel: str
    defines: tuple[tuple[str, str], ...]
    tables: tuple[Array, ...]
    grid: tuple[int, int]
    scalars: tuple[np.generic, ...] = ()

    def __post_init__(self) -> None:
        if self.grid[1] > MAX_SAMPLES:
            raise PipelineError(f"{self.kernel}: {self.grid[1]} samples, but a launch takes at most {MAX_SAMPLES}")


def address_offsets(kind: np.dtype[Any]) -> tuple[int, ...]:
    """Return the offsets of the addresses in a row of a table, in bytes."""
    if kind.subdtype is not None:
        inner, shape = kind.subdtype
        steps = range(0, math.prod(shape) * inner.itemsize, inner.itemsize)
        return tuple(step + offset for step in steps for offset in address_offsets(inner))
    members = [field[:2] for field in (kind.fields or {}).values()]
    if not members:
        return (0,) if kind.metadata and "address" in kind.metadata else ()
    return tuple(begin + offset for member, begin in members for offset in address_offsets(member))


class LaunchPlan(Protocol):
    """Launches that need device memory for results in between.

    Attributes:
        scratch_bytes: bytes of this memory.
    """

    scratch_bytes: int

    def launches(self, scratch: int) -> Sequence[Launch]:
        """Return the launches in order, given the address of the memory."""


def ctype(dtype: np.dtype[Any]) -> str:
    """Return the name of an element type in the kernels.

    Raises:
        PipelineError: the kernels don't support the dtype.
    """
    try:
        return CTYPES[dtype]
    except KeyError:
        raise PipelineError(f"GPU kernels don't support the dtype {dtype}") from None


def blocks_for(items: int, per_thread: int = 1, limit: int = 1 << 16) -> int:
    """Return the number of blocks for `items` per sample, at most `limit`: kernels use grid-stride loops."""
    return max(1, min(limit, -(-items // (THREADS * per_thread))))


def pack_scalars(scalars: Sequence[np.generic]) -> bytes:
    """Return the bytes of a kernel's arguments behind the pointers, each aligned to its size."""
    packed = b""
    for scalar in scalars:
        packed += bytes(-len(packed) % scalar.itemsize) + scalar.tobytes()
    return packed
