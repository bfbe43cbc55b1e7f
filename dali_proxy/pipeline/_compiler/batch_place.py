"""Where a batch on the GPU lies, and what else describes it: batches of one kind differ only in their addresses."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple, cast

import numpy as np

from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline.tensors.gpu import TensorListGPU


class BatchPlace(NamedTuple):
    """The memory of a batch on the GPU.

    Attributes:
        kind: dtype, layout and shape, and the order of the samples in memory.
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
                return cls((value.layout(), array.dtype, shape, strides), data.ptr, data.mem)
            if shape[0]:
                return None
        placement = value.table().placement if len(value) else None
        return None if placement is None else cls((value.layout(), placement[2]), placement[0], None, placement)

    @property
    def nbytes(self) -> int:
        """Number of bytes from the first byte to the last one."""
        if self.table is not None:
            return self.table[1]
        _, dtype, shape, strides = cast("tuple[str, np.dtype[Any], tuple[int, ...], tuple[int, ...]]", self.kind)
        return sum([(count - 1) * step for count, step in zip(shape, strides, strict=True)]) + dtype.itemsize
