"""Batches on a GPU, created from a table: their attributes need no GPU, because no data is read."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._kernels.samples import Samples
from pipeline.tensors import TensorListGPU
from pipeline.types import INT16

pytest.importorskip("cupy")

SHAPES = np.array([[2, 3], [4, 5], [0, 7]])
STRIDES = np.array([[8, 2], [16, 2], [16, 2]])  # rows are padded
TABLE = Samples(np.array([0x10000, 0x20000, 0x30000]), SHAPES, STRIDES, np.dtype(np.int16))


class Memory:
    """Keeps memory, or would."""


def test_batch_of_a_table_describes_the_same_samples() -> None:
    for batch in (TensorListGPU.from_table(TABLE, Memory(), 3), TensorListGPU.from_table(TABLE, Memory(), 3, "HW")):
        assert (len(batch), batch.ndim, batch.dtype, batch.nbytes) == (3, 2, INT16, 52)
        assert batch.shape() == [(2, 3), (4, 5), (0, 7)]
        assert batch.device_id() == 3
        assert batch.table() is TABLE
        assert not batch.is_dense_tensor()
        assert batch.with_layout("YX").layout() == "YX"
        assert batch.with_layout("YX").table() is TABLE
        assert batch.data_ptr() == TABLE.pointers[0]
    alike = Samples(TABLE.pointers[:2], SHAPES[[0, 0]], STRIDES[[0, 0]], TABLE.dtype)
    assert TensorListGPU.from_table(alike, Memory(), 0).is_dense_tensor()


def test_arrays_of_a_table_are_created_on_demand_and_hold_the_memory() -> None:
    memory: Any = Memory()
    gone = weakref.ref(memory)
    batch: Any = TensorListGPU.from_table(TABLE, memory, 0)
    arrays = batch.samples
    assert batch.samples is arrays
    assert [array.data.ptr for array in arrays] == TABLE.pointers.tolist()
    assert [list(array.shape) for array in arrays] == SHAPES.tolist()
    assert [list(array.strides) for array in arrays[:2]] == STRIDES[:2].tolist()
    assert [array.data.mem.size for array in arrays] == [14, 58, 0]
    del memory, batch, arrays[1:]
    gc.collect()
    assert gone() is not None
    del arrays
    gc.collect()
    assert gone() is None
