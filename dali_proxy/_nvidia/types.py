"""Names of `nvidia.dali.types` that have no use in this project's own interface."""

from __future__ import annotations

from enum import Enum
from typing import Any

from dali_proxy.pipeline import types

_all_types = [
    *(types.BOOL, types.INT8, types.INT16, types.INT32, types.INT64, types.UINT8, types.UINT16, types.UINT32),
    *(types.UINT64, types.FLOAT16, types.FLOAT, types.FLOAT64),
]


class CUDAStream:
    """A CUDA stream by its handle.

    Args:
        ptr: the handle; 0 for the default stream.
    """

    def __init__(self, ptr: int = 0) -> None:
        self._ptr = ptr

    @property
    def ptr(self) -> int:
        """The handle."""
        return self._ptr


class PipelineAPIType(Enum):
    """The ways to run a pipeline."""

    BASIC = 0
    ITERATOR = 1
    SCHEDULED = 2


class TensorLayout(str):
    """Names of the dimensions of a sample. A str is accepted wherever DALI expects this type."""

    __slots__ = ()


def constant_node(device: str, value: Any, dtype: Any, shape: Any, layout: Any, **kwargs: Any) -> Any:
    """Return a constant of a graph on a device, as `types.Constant` does."""
    return types.Constant(value, dtype, shape, layout, device, **kwargs)
