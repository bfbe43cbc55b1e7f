"""The values of a cache: how long their memory lives, and what is allocated ahead."""

from __future__ import annotations

import ctypes
import mmap
import subprocess
import sys
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
    assert resident(memory) * mmap.PAGESIZE == 2 << 20
    pages.use(1 << 20, 32 << 20)
    pages.wait()
    assert resident(memory) * mmap.PAGESIZE == 9 << 20
    pages.use(4 << 20, 32 << 20)  # more than half of that is still ahead
    pages.wait()
    assert resident(memory) * mmap.PAGESIZE == 9 << 20
    pages.use(20 << 20, 32 << 20)  # what was skipped is in use already
    pages.wait()
    assert resident(memory) * mmap.PAGESIZE == 17 << 20
    pages.use(25 << 20, 30 << 20)
    pages.wait()
    assert resident(memory) * mmap.PAGESIZE == 19 << 20
    pages.close()
    pages.use(0, 32 << 20)


_FILL = """
import gc, sys
import numpy as np
from dali_proxy.pipeline._cache.value_cache import ValueCache
from dali_proxy.pipeline.tensors.cpu import TensorListCPU

BATCH = 32


def fill(cache, size, count):
    numbers = np.random.default_rng(count)
    for batch in range(count // BATCH):
        heights = numbers.integers(size // 200, size * 3 // 200, BATCH)
        images = [pixels[:height] for height in heights]
        keys = [numbers.bytes(28) for _ in images]
        cache.store(keys, [TensorListCPU(images, "HW")])
        cache.give_names(keys, [numbers.bytes(72) for _ in images])
    cache.pages.wait()


def memory():
    gc.collect()
    with open("/proc/self/smaps_rollup") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


size, limit = map(int, sys.argv[1:])
pixels = np.ones((size * 3 // 200, 100), np.uint8)
warm = ValueCache(8 << 20)
fill(warm, size, 40 * BATCH)  # allocates what the system keeps for later arrays
before = memory()
cache = ValueCache(limit)
for _ in range(2):  # a full cache doesn't grow
    fill(cache, size, limit * 6 // 5 // size)
print((memory() - before) / limit, cache.report()["cache_refused"])
"""


@pytest.mark.parametrize("size", [600_000, 30_000])
def test_process_with_a_full_cache_has_its_limit_of_memory(size: int) -> None:
    command = [sys.executable, "-c", _FILL, str(size), str(1 << 30)]
    share, refused = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert float(share) == pytest.approx(1, abs=0.01)
    assert float(refused) > 0
