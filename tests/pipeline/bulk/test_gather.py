"""Gathering the memory of many samples into one buffer: the copied ranges, and their contents."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dali_proxy.pipeline._bulk.gather import MemoryRanges, gather, gathered
from dali_proxy.pipeline._concurrency.thread_pool import ThreadPool
from dali_proxy.pipeline._kernels.samples import Samples
from pipeline.tensors.cpu import TensorListCPU


def in_blocks(blocks: list[np.ndarray], rows: list[tuple[int, int, int]]) -> TensorListCPU:
    """Create a batch of (block, offset, bytes)."""
    homes, offsets, sizes = np.array(rows, np.int64).T
    shapes = np.ascontiguousarray(sizes[:, None])
    starts = np.array([block.ctypes.data for block in blocks])[homes] + offsets
    return TensorListCPU.from_table(Samples(starts, shapes, np.ones_like(shapes), np.dtype(np.uint8)), blocks, homes)


def copied(batch: TensorListCPU, pool: ThreadPool | None = None) -> list[bytes]:
    ranges = MemoryRanges.from_batch(batch)
    buffer = np.zeros(ranges.nbytes, np.uint8)
    ranges.copy_to(buffer, pool)
    sizes = batch.table().sizes.tolist()
    return [buffer[place : place + size].tobytes() for place, size in zip(ranges.sample_offsets, sizes, strict=True)]


BLOCKS = [np.random.default_rng(seed).integers(0, 256, 200_000, np.uint8) for seed in range(2)]
ROWS = st.tuples(st.integers(0, 1), st.integers(0, 150_000), st.integers(0, 50_000))


@given(st.lists(ROWS, min_size=1, max_size=12))
@settings(max_examples=200, deadline=None)
def test_samples_arrive_from_any_address(rows: list[tuple[int, int, int]]) -> None:
    batch = in_blocks(BLOCKS, rows)
    assert copied(batch) == [BLOCKS[home][offset : offset + size].tobytes() for home, offset, size in rows]
    ranges = MemoryRanges.from_batch(batch)
    for start, size in zip(ranges.starts.tolist(), ranges.sizes.tolist(), strict=True):  # all other bytes are unchanged
        assert any(0 <= start - block.ctypes.data <= start - block.ctypes.data + size <= 200_000 for block in BLOCKS)


def test_adjacent_samples_are_joined_and_blocks_are_not() -> None:
    near = [(0, number * 1024, 1000) for number in range(100)]
    assert MemoryRanges.from_batch(in_blocks(BLOCKS, near)).sizes.tolist() == [99 * 1024 + 1000]
    assert MemoryRanges.from_batch(in_blocks(BLOCKS, [*near, (0, 180_000, 10)])).sizes.tolist() == [
        99 * 1024 + 1000,
        10,
    ]
    whole = np.zeros(1000, np.uint8)
    halves = [whole[:500], whole[500:]]
    assert MemoryRanges.from_batch(in_blocks(halves, [(0, 0, 500), (1, 0, 500)])).sizes.tolist() == [500, 500]
    assert (
        len(MemoryRanges.from_batch(TensorListCPU([whole[:400], whole[500:]])).sizes) == 2
    )  # the owner of the memory between them is unknown


def test_large_batches_are_copied_on_many_threads(way: str) -> None:
    block = np.random.default_rng(5).integers(0, 256, 5 << 20, np.uint8)
    batch = in_blocks([block], [(0, 0, 3_000_000), (0, 3_000_064, 2_000_000), (0, 5_200_000, 1)])
    with ThreadPool(3, "test") as pool:
        made = copied(batch, pool)
    assert made[0] == block[:3_000_000].tobytes()
    assert made[1] == block[3_000_064:5_000_064].tobytes()
    assert made[2] == block[5_200_000:5_200_001].tobytes()


def test_dense_array_is_one_range(way: str) -> None:
    array = np.arange(5 * 7 * 3, dtype=np.float32).reshape(5, 7, 3)
    ranges = MemoryRanges.from_array(array)
    buffer = np.zeros(ranges.nbytes, np.uint8)
    ranges.copy_to(buffer)
    np.testing.assert_array_equal(buffer.view(np.float32).reshape(array.shape), array)
    assert ranges.sample_offsets.tolist() == [84 * number for number in range(5)]


def test_samples_of_any_strides_are_gathered(way: str) -> None:
    samples = [np.arange(24, dtype=np.int16).reshape(4, 6).T, np.arange(6, dtype=np.int16).reshape(2, 3)[::-1]]
    for batch in (TensorListCPU(samples), TensorListCPU([np.ascontiguousarray(sample) for sample in samples])):
        buffer = np.zeros(128, np.uint8)
        gather(batch, buffer, np.array([64, 8]))
        np.testing.assert_array_equal(buffer[64:112].view(np.int16).reshape(6, 4), samples[0])
        np.testing.assert_array_equal(buffer[8:20].view(np.int16).reshape(2, 3), samples[1])


def test_gathered_batch_is_a_copy(way: str) -> None:
    samples = [np.arange(6.0).reshape(2, 3), np.ones((5, 1)).T, np.zeros((0, 2))]
    made = gathered(TensorListCPU(samples, "HW"))
    assert made.layout() == "HW"
    expected = [sample.copy() for sample in samples]
    samples[0][:] = 7
    for sample, same in zip(made.samples, expected, strict=True):
        np.testing.assert_array_equal(sample, same)


@pytest.mark.parametrize("place", [-1, 5, 2**40])
def test_arrays_that_do_not_fit_are_refused(way: str, place: int) -> None:
    with pytest.raises(ValueError, match="doesn't fit"):
        gather(TensorListCPU([np.zeros(6, np.uint8)]), np.zeros(10, np.uint8), np.array([place]))


def test_broadcast_array_is_refused() -> None:
    numbers = np.broadcast_to(np.float32(3), (4,))  # each sample is contiguous, the batch isn't
    assert TensorListCPU(numbers).table().is_contiguous()
    with pytest.raises(ValueError, match="isn't contiguous"):
        MemoryRanges.from_array(numbers)
    assert MemoryRanges.from_array(np.ascontiguousarray(numbers)).nbytes == 16


@pytest.mark.parametrize("size", [(1 << 18) - 1, 1 << 18, (1 << 18) + 77])
def test_large_samples_arrive_at_any_index(way: str, size: int) -> None:
    block = np.random.default_rng(size).integers(0, 256, 2 * size + 3, np.uint8)
    buffer = np.full(2 * size + 300, 7, np.uint8)
    places = np.array([1, size + 202])
    gather(in_blocks([block], [(0, 3, size), (0, size + 3, size)]), buffer, places)
    expected = np.full_like(buffer, 7)
    for place, sample in zip(places.tolist(), (block[3 : size + 3], block[size + 3 :]), strict=True):
        expected[place : place + size] = sample
    np.testing.assert_array_equal(buffer, expected)
