from __future__ import annotations

import gc
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dali_proxy.pipeline._ipc.block_allocator import BlockAllocator, Extents, _table_of, compiled, table_of
from tests.pipeline.ipc.test_arena import ARRAYS

KINDS = [BlockAllocator, *([] if compiled is None else [compiled.BlockAllocator])]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__module__)
def create_allocator(request):
    return lambda nbytes: request.param(3, np.zeros(nbytes, np.uint8))


def test_block_stays_allocated_while_it_is_referenced(create_allocator):
    allocator = create_allocator(1024)
    first, second = allocator.take(65), allocator.take(0)
    assert (first.segment_id, first.offset, first.nbytes) == (3, 0, 65)
    assert (second.offset, second.nbytes) == (128, 0)
    assert allocator.used == 192
    assert repr(first) == "Block(segment_id=3, offset=0, nbytes=65)"
    del first
    assert allocator.used == 64
    assert allocator.take(128).offset == 0  # the lowest offset that fits, whose memory is in the cache
    assert allocator.used == 64


def test_allocation_without_room_returns_none(create_allocator):
    allocator = create_allocator(1000)  # 15 units of 64 bytes, and a rest
    assert allocator.take(1 << 60) is None
    assert allocator.take(1000) is None
    kept = [allocator.take(64) for _ in range(15)]
    assert None not in kept
    assert allocator.take(1) is None
    del kept[3:6]
    assert allocator.take(193) is None
    assert allocator.take(192).offset == 192


def test_blocks_outlive_their_allocator(create_allocator):
    allocator = create_allocator(1024)
    block = allocator.take(100)
    array = block.array
    del allocator
    block.array[block.offset] = 7
    assert array[0] == 7


def test_blocks_may_be_dropped_in_any_order(create_allocator):
    rng = np.random.default_rng(0)
    allocator, taken = create_allocator(64 << 10), {}
    for number in range(3000):
        block = allocator.take(int(rng.integers(0, 2000)))
        if block is not None:
            block.array[block.offset : block.offset + block.nbytes] = number % 251
            taken[number] = block
        if taken and (block is None or rng.random() < 0.5):
            gone = int(rng.choice(list(taken)))
            block = taken.pop(gone)
            assert (block.array[block.offset : block.offset + block.nbytes] == gone % 251).all()
        del block
    assert allocator.used == sum(max(block.nbytes + 63 & -64, 64) for block in taken.values())
    taken.clear()
    assert allocator.used == 0
    assert allocator.take(64 << 10).offset == 0  # neighbours were merged


@pytest.mark.skipif(compiled is None, reason="no C compiler")
@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}{array.shape}")
def test_compiled_write_copies_contiguous_arrays_only(array):
    allocator = compiled.BlockAllocator(0, np.zeros(512 << 10, np.uint8))
    blocks = allocator.write([array])
    if not (array.flags.c_contiguous and array.dtype.isnative):
        assert blocks is None  # NumPy copies it
        assert allocator.used == 0
        return
    (block,) = blocks
    copied = np.ndarray(array.shape, array.dtype, block.array, block.offset)
    np.testing.assert_array_equal(copied, array)
    assert block.nbytes == array.nbytes


@pytest.mark.skipif(compiled is None, reason="no C compiler")
def test_compiled_write_refuses_or_has_no_room():
    allocator = compiled.BlockAllocator(0, np.zeros(1024, np.uint8))
    small = np.ones(10, np.uint8)
    assert allocator.write([small, np.zeros(1025, np.uint8)]) is None
    assert allocator.write([small, np.array([None])]) is None  # addresses mean nothing elsewhere
    assert allocator.used == 0  # nothing is left of the first array
    (kept,) = allocator.write([np.ones(1000, np.uint8)])
    assert kept.array[:1000].all()
    assert allocator.write([np.zeros(30, np.uint8)]) is None
    assert allocator.write([]) == ()
    for wrong in (3, small, (small,), [3]):
        with pytest.raises(TypeError):
            allocator.write(wrong)
    with pytest.raises(TypeError):
        allocator.take("3")
    assert allocator.take(-1) is None
    locked = np.zeros(64, np.uint8)
    locked.setflags(write=False)
    with pytest.raises((BufferError, ValueError)):
        compiled.BlockAllocator(0, locked)


@pytest.mark.skipif(compiled is None, reason="no C compiler")
def test_compiled_write_copies_several_arrays():
    allocator = compiled.BlockAllocator(0, np.zeros(1024, np.uint8))
    arrays = [np.arange(7, dtype=np.float32), np.int16(5)[None], np.zeros((0, 2))]
    for block, array in zip(allocator.write(arrays), arrays, strict=True):
        np.testing.assert_array_equal(np.ndarray(array.shape, array.dtype, block.array, block.offset), array)


@pytest.mark.parametrize("compiles", [False, True])
def test_table_has_a_row_for_each_sample(compiles):
    if compiles and compiled is None:
        pytest.skip("no C compiler")
    kind, make = (compiled.BlockAllocator, table_of) if compiles else (BlockAllocator, _table_of)
    allocators = [kind(number, np.zeros(1024, np.uint8)) for number in (3, 1 << 40)]
    blocks = [(each.take(5), each.take(70)) for each in allocators]
    shapes = [((), (2, 1 << 40)), ((), (0, 7))]
    second = np.frombuffer(make(blocks, shapes, 1), np.int64).reshape(2, -1)
    assert second.tolist() == [[3, 64, 2, 1 << 40], [1 << 40, 64, 0, 7]]
    assert np.frombuffer(make(blocks, shapes, 0), np.int64).tolist() == [3, 0, 1 << 40, 0]


@pytest.mark.skipif(compiled is None, reason="no C compiler")
def test_compiled_table_refuses_what_is_no_table():
    blocks = compiled.BlockAllocator(0, np.zeros(1024, np.uint8)).write([np.zeros(4)])
    for arguments in [
        ([blocks, blocks], [((4,),)], 0),
        ([blocks], [((4,),)], 1),
        ([blocks], [((4,),)], -1),
        ([blocks, blocks], [((4,),), ((4, 1),)], 0),
        ([blocks], [((1 << 63,),)], 0),
        ([blocks], [(("4",),)], 0),
        ([blocks], [(4,)], 0),
        ([blocks], [[(4,)]], 0),
        ([(3,)], [((4,),)], 0),
        ([blocks], 3, 0),
    ]:
        with pytest.raises((TypeError, ValueError, IndexError, OverflowError)):
            compiled.rows(*arguments)


@pytest.mark.skipif(compiled is None, reason="no C compiler")
def test_compiled_loop_leaks_nothing():
    def use() -> None:
        memory = np.zeros(1 << 20, np.uint8)
        references = sys.getrefcount(memory)
        allocator = compiled.BlockAllocator(0, memory)
        blocks = [allocator.write([np.zeros(300, np.uint8)]) for _ in range(100)]  # more than its initial capacity
        allocator.write([np.zeros(300, np.uint8), np.zeros((4, 4), ">i4")])
        compiled.rows(blocks, [((300,),)] * 100, 0)
        del blocks[::2]
        del allocator, blocks
        assert sys.getrefcount(memory) == references

    use()
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(50):
        use()
    gc.collect()
    assert sys.getallocatedblocks() - before < 50


@pytest.mark.skipif(compiled is None, reason="the package was installed without a C compiler")
@pytest.mark.parametrize("nbytes", [(1 << 18) - 1, 1 << 18, (1 << 18) + 77, 1_000_003])
def test_compiled_loop_copies_many_bytes_and_no_more(nbytes):
    given = np.random.default_rng(nbytes).integers(0, 256, nbytes + 5, np.uint8)[5:]  # at an odd address
    memory = np.full(nbytes + 4096, 7, np.uint8)
    allocator = compiled.BlockAllocator(0, memory)
    before = allocator.take(64)
    (block,) = allocator.write([given])
    np.testing.assert_array_equal(memory[block.offset : block.offset + nbytes], given)
    assert (memory[: before.nbytes] == 7).all()
    assert (memory[block.offset + nbytes :] == 7).all()


def test_lowest_extent_is_taken_and_neighbours_merge():
    extents = Extents(10)
    assert [extents.take(3), extents.take(3), extents.take(4)] == [0, 3, 6]
    assert extents.take(1) is None
    extents.give(0, 3)
    extents.give(6, 4)
    assert extents.take(5) is None  # 7 are free, in pieces of 3 and 4
    extents.give(3, 3)
    assert extents.take(10) == 0


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 40)), max_size=200))
def test_extents_never_overlap_and_none_is_lost(steps):
    size = 100
    extents = Extents(size)
    taken: dict[int, int] = {}
    for take, number in steps:
        if take:
            start = extents.take(number)
            free = sorted(set(range(size)) - {i for s, n in taken.items() for i in range(s, s + n)})
            fits = next((i for i in free if set(range(i, i + number)) <= set(free)), None)
            assert start == fits
            if start is not None:
                taken[start] = number
        elif taken:
            start = sorted(taken)[number % len(taken)]
            extents.give(start, taken.pop(start))
        assert extents.used == sum(taken.values())
    for start, length in taken.items():
        extents.give(start, length)
    assert extents.take(size) == 0
