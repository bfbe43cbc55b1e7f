"""The values of a cache: how long their memory lives, and what is allocated ahead."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pytest

from dali_proxy.pipeline._cache.pages_ahead import PagesAhead
from dali_proxy.pipeline._cache.value_cache import ValueCache
from pipeline.tensors import TensorListCPU

SIZE = 1 << 16


@pytest.fixture
def cache() -> Iterator[ValueCache]:
    made = ValueCache(SIZE + 4096)
    yield made
    made.close()


def test_value_without_room_is_handed_on_in_c_order() -> None:
    with closing(ValueCache(1)) as cache:
        (own, _), (_, waiting) = cache.claim([b"a"]), cache.claim([b"a"])
        planes = np.arange(24, dtype=np.uint8).reshape(4, 2, 3)
        cache.end(own, [TensorListCPU([planes.transpose(1, 2, 0)])])
        (entry,) = cache.wait([b"a"], [each for each in waiting if each is not None])
        assert entry is not None
        part = entry.parts[0]
        content = np.ctypeslib.as_array((ctypes.c_uint8 * 24).from_address(part.address))
        assert content.reshape(part.shape).tolist() == planes.transpose(1, 2, 0).tolist()


def test_memory_is_not_reused_while_an_array_is_over_it(cache: ValueCache) -> None:
    (entry,) = cache.store([b"a"], [TensorListCPU([np.full(SIZE, 7, np.uint8)])])
    assert entry is not None
    block = entry.parts[0].owner
    array = cache.memory_of([block])[block.offset + 10 : block.offset + 20]
    del entry, block
    cache._memory._entries.clear()  # as if it was evicted
    assert cache.reserve([b"b"], [[SIZE]]) == [None]
    assert array.tolist() == [7] * 10
    del array
    reserved = cache.reserve([b"b"], [[SIZE]])
    assert reserved != [None]
    cache.release(reserved)


def test_reserved_memory_is_given_back(cache: ValueCache) -> None:
    reserved = cache.reserve([b"a"], [[SIZE]])
    assert cache.report()["cache_bytes"] > SIZE
    cache.release(reserved)
    del reserved
    assert cache.report()["cache_bytes"] == 0


def test_values_that_were_computed_in_reserved_memory_are_not_copied(cache: ValueCache) -> None:
    reserved = cache.reserve([b"a"], [[SIZE]])
    assert reserved[0] is not None
    memory = cache.memory_of(reserved[0])[:SIZE]
    memory[:] = 5
    (entry,) = cache.store([b"a"], [TensorListCPU([memory])], reserved=reserved)
    assert entry is not None
    assert entry.parts[0].address == memory.ctypes.data
    assert cache.find([b"a"]) == [entry]


def resident(memory: mmap.mmap) -> int:
    """Return the number of pages that have memory."""
    array = np.frombuffer(memory, np.uint8)
    pages = np.zeros(len(memory) // mmap.PAGESIZE, np.uint8)
    address, result = ctypes.c_void_p(array.ctypes.data), ctypes.c_void_p(pages.ctypes.data)
    assert ctypes.CDLL(None).mincore(address, ctypes.c_size_t(len(memory)), result) == 0
    return int((pages & 1).sum())


def test_pages_are_allocated_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dali_proxy.pipeline._cache.pages_ahead._AHEAD", 8 << 20)
    monkeypatch.setattr("dali_proxy.pipeline._cache.pages_ahead._STEP", 1 << 20)
    memory = mmap.mmap(-1, 32 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pages = PagesAhead(np.frombuffer(memory, np.uint8))
    pages.wait()
    if not resident(memory):
        pytest.skip("the system can't allocate pages ahead")
    assert resident(memory) * mmap.PAGESIZE == 8 << 20
    pages.use(1 << 20)  # half of that is still ahead
    pages.wait()
    assert resident(memory) * mmap.PAGESIZE == 8 << 20
    pages.use(20 << 20)  # what was skipped is in use already
    pages.wait()
    assert resident(memory) * mmap.PAGESIZE == 16 << 20
    pages.use(25 << 20)
    pages.wait()
    assert resident(memory) * mmap.PAGESIZE == 20 << 20
    pages.close()
    pages.use(0)
