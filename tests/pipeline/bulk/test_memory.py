from __future__ import annotations

import gc

import numpy as np
import torch

from dali_proxy.pipeline._bulk.buffer_pool import BufferPool


def test_memory_returns_when_the_last_view_is_gone() -> None:
    pool = BufferPool()
    array = pool.array((64, 1024), np.dtype(np.float32))
    address = array.ctypes.data
    view = torch.from_numpy(array)[3]
    del array
    gc.collect()
    other = pool.array((64, 1024), np.dtype(np.float32))
    assert other.ctypes.data != address, "a view still uses the memory"
    del view
    again = pool.array((32, 2048), np.dtype(np.float32))
    assert again.ctypes.data == address
    assert pool.allocated == 2
    del other


def test_steady_state_allocates_nothing() -> None:
    pool = BufferPool()
    for number in range(100):
        array = pool.array((50, 1000 + number % 7), np.dtype(np.uint8))
        array[:] = number
    assert pool.allocated <= 2


def test_idle_memory_is_bounded_by_what_was_in_use() -> None:
    pool = BufferPool(idle_limit=1 << 20)
    for _ in range(3):
        held = [pool.array((1 << 19,), np.dtype(np.uint8)) for _ in range(8)]
        del held
    assert pool.allocated == 8, "all of it is reused, although it is more than the limit"
    for _ in range(3000):  # less is in use from now on
        pool.array((1 << 19,), np.dtype(np.uint8))
    assert pool._idle_bytes <= 1 << 20


def test_idle_memory_of_an_unused_size_makes_room() -> None:
    pool = BufferPool(idle_limit=1 << 20)
    small = [pool.array((1 << 18,), np.dtype(np.uint8)) for _ in range(4)]
    del small
    for _ in range(5):
        large = pool.array((1 << 19,), np.dtype(np.uint8))
        del large
    assert pool.allocated == 5
