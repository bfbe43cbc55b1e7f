from __future__ import annotations

import gc

import numpy as np
import torch

from dali_proxy.pipeline._bulk.buffer_pool import BufferPool, Lease, lent_array


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
    pool = BufferPool(kept=1 << 20)
    for _ in range(3):
        held = [pool.array((1 << 19,), np.dtype(np.uint8)) for _ in range(8)]
        del held
    assert pool.allocated == 8, "all of it is reused, although it is more than the limit"
    for _ in range(3000):  # less is in use from now on
        pool.array((1 << 19,), np.dtype(np.uint8))
    assert pool._idle_bytes <= 1 << 20


def test_batches_of_varying_sizes_share_their_memory() -> None:
    pool = BufferPool(kept=1 << 20)
    rng = np.random.default_rng(0)
    for _ in range(300):
        held = [pool.array((int(rng.integers(90, 140)) << 13,), np.dtype(np.uint8)) for _ in range(4)]
        del held
    allocated = pool.allocated
    assert allocated < 20, "buffers of one size don't take the other arrays"
    pool.array((1 << 18,), np.dtype(np.uint8))
    assert pool.allocated == allocated + 1, "an array doesn't take a buffer of more than twice its size"


def test_idle_memory_of_other_sizes_is_freed() -> None:
    pool = BufferPool(kept=1 << 20)
    for size in (1 << 22, 1_500_000, 1 << 19) * 100:
        array = pool.array((size,), np.dtype(np.uint8))
        array[:] = 1
        del array
    assert pool._idle_bytes <= 1.25 * (1 << 22)


def test_reserved_memory_stays() -> None:
    pool = BufferPool(kept=1 << 17)
    pool.reserve(1 << 18, 6)
    held = [pool.array((1 << 18,), np.dtype(np.uint8)) for _ in range(6)]
    assert pool.allocated == 6
    del held


def test_idle_memory_of_an_unused_size_makes_room() -> None:
    pool = BufferPool(kept=1 << 20)
    small = [pool.array((1 << 18,), np.dtype(np.uint8)) for _ in range(4)]
    del small
    for _ in range(5):
        large = pool.array((1 << 19,), np.dtype(np.uint8))
        del large
    assert pool.allocated == 5


def test_lease_ends_with_its_last_holder() -> None:
    ended: list[bool] = []
    lease = Lease(lambda: ended.append(True))
    holders = [lease, lease]
    del lease
    holders.pop()
    gc.collect()
    assert ended == []
    holders.pop()
    gc.collect()
    assert ended == [True]


def test_lease_ends_once() -> None:
    ended: list[bool] = []
    lease = Lease(lambda: ended.append(True))
    lease.end()
    lease.end()
    del lease
    assert ended == [True]


def test_lent_array_ends_the_lease_with_its_last_view() -> None:
    ended: list[bool] = []
    memory = np.zeros(16, np.uint8)
    memory.setflags(write=False)
    array = lent_array(memory, Lease(lambda: ended.append(True)))
    view = array[8:].view(np.int32)
    view[0] = 1  # the owner decides whether it is writable, not the underlying array
    del array
    assert memory[8] == 1
    assert ended == []
    del view
    assert ended == [True]
