"""Where a batch on the GPU lies, and what else describes it: batches of one kind differ only in their addresses."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple, cast

import numpy as np

from pipeline._operator_api.request import TensorList
from pipeline.tensors.gpu import TensorListGPU

__all__ = ["BatchPlace"]

_WORD = 8  # bytes of the widest elements that kernels load at once


class BatchPlace(NamedTuple):
    """The memory of a batch on the GPU.

    Attributes:
        kind: dtype, layout and shape, the order of the samples in memory, and the alignment of the address.
        address: address of its first byte.
        memory: object that owns this memory, if the batch is dense.
        table: address and size of the memory of a batch that isn't dense, and what else describes it.
    """

    kind: Hashable
    address: int
    memory: Any = None
    table: tuple[int, int, Hashable] | None = None

    @classmethod
    def of(cls, value: TensorList) -> BatchPlace | None:
        """Describe a batch; return None if it isn't on the GPU, or if it is empty or reversed."""
        if not isinstance(value, TensorListGPU):
            return None
        array = value.dense
        if array is not None:
            shape, strides = array.shape, array.strides
            if shape[0] and min(strides) >= 0:
                data = array.data
                address = data.ptr
                return cls((value.layout(), array.dtype, shape, strides, address % _WORD), address, data.mem)
            if shape[0]:
                return None
        placement = value.table().placement if len(value) else None
        if placement is None:
            return None
        return cls((value.layout(), placement[2], placement[0] % _WORD), placement[0], None, placement)

    @property
    def nbytes(self) -> int:
        """Number of bytes from the first byte to the last one."""
        if self.table is not None:
            return self.table[1]
        kind = cast("tuple[str, np.dtype[Any], tuple[int, ...], tuple[int, ...], int]", self.kind)
        _, dtype, shape, strides, _ = kind
        return sum([(count - 1) * step for count, step in zip(shape, strides, strict=True)]) + dtype.itemsize
