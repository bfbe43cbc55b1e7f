"""Orders, shards and shuffling: the contents of each epoch, as arithmetic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dali_proxy.pipeline._readers.order import (
    BufferShuffled,
    EpochShuffled,
    Order,
    Sequential,
    permutation,
    shuffle_by_buffer,
)
from dali_proxy.pipeline._readers.sharding import Cursor, Sharding
from dali_proxy.pipeline._rng import BatchKey
from pipeline import errors
from tests.pipeline.readers.data import flat, reading, take, write_files


@given(entries=st.integers(1, 60), shards=st.integers(1, 8), epoch=st.integers(0, 20), data=st.data())
@settings(max_examples=60, deadline=None)
def test_epochs_of_all_shards_have_each_entry_once(entries: int, shards: int, epoch: int, data: Any) -> None:
    shards = min(shards, entries)
    kind = data.draw(st.sampled_from(["sequential", "buffer", "mixed", "epoch"]))
    stick = data.draw(st.booleans()) or kind == "epoch"
    seen: list[int] = []
    sizes = set()
    for shard in range(shards):
        sharding = Sharding(entries, shard, shards, stick_to_shard=stick)
        order = make_order(kind, sharding, seed=shard)  # seed of the buffer; shards may use different ones
        sizes.add(sharding.size(epoch))
        seen += order.entries(epoch, np.arange(sharding.size(epoch))).tolist()
    assert sorted(seen) == list(range(entries))
    assert max(sizes) - min(sizes) <= 1


def make_order(kind: str, sharding: Sharding, seed: int = 0) -> Order:
    if kind == "sequential":
        return Sequential(sharding)
    if kind == "epoch":
        return EpochShuffled(sharding, seed=5)
    return BufferShuffled(sharding, 3, seed, mixed=kind == "mixed")


@given(entries=st.integers(1, 40), sizes=st.lists(st.integers(1, 9), max_size=30), shards=st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_unpadded_batches_of_any_sizes_lose_nothing(entries: int, sizes: list[int], shards: int) -> None:
    sharding = Sharding(entries, 0, min(shards, entries))
    cursor, given_so_far = Cursor(), []
    for size in sizes:
        parts, cursor = sharding.take(cursor, size)
        given_so_far += [(epoch, offset) for epoch, offsets in parts for offset in offsets.tolist()]
    expected = [(epoch, offset) for epoch in range(sum(sizes) + 1) for offset in range(sharding.size(epoch))]
    assert given_so_far == expected[: sum(sizes)]


@given(count=st.integers(1, 300), buffer=st.integers(1, 320), seed=st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_buffer_returns_all_samples_and_none_too_early(count: int, buffer: int, seed: int) -> None:
    made = shuffle_by_buffer(count, buffer, seed, 0, BatchKey(3))
    assert sorted(made.tolist()) == list(range(count))
    assert (made < np.arange(count) + buffer).all()


def test_draws_from_a_buffer_are_uniform() -> None:
    """Each entry of the buffer is equally likely to be drawn first, and the last entry may come at any late index."""
    first = [int(shuffle_by_buffer(20, 4, seed, 0, BatchKey())[0]) for seed in range(400)]
    assert np.bincount(first, minlength=4).min() > 60
    assert len(first) == sum(np.bincount(first, minlength=4)[:4])
    last = {shuffle_by_buffer(20, 4, seed, 0, BatchKey()).tolist().index(19) for seed in range(400)}
    assert last == {16, 17, 18, 19}


def test_orders_are_pinned() -> None:
    """A checkpoint from another version of NumPy, or another machine, must resume in the same order."""
    assert permutation(8, 1, 2, BatchKey(3)).tolist() == PINNED_PERMUTATION
    assert shuffle_by_buffer(8, 3, 1, 2, BatchKey(3)).tolist() == PINNED_BUFFER


PINNED_PERMUTATION = [2, 5, 6, 1, 7, 3, 0, 4]
PINNED_BUFFER = [2, 1, 4, 0, 5, 6, 3, 7]


@pytest.mark.parametrize(
    "wrong", [{"shard_id": 2}, {"shard_id": -1}, {"num_shards": 0}, {"entries": 1, "num_shards": 2, "shard_id": 0}]
)
def test_missing_shards_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(errors.ArgumentValueError, match="shard"):
        Sharding(**{"entries": 8, "num_shards": 2, "shard_id": 1, **wrong})


def batches(pipe: Any, count: int) -> list[list[int]]:
    made = take(pipe, count)
    pipe.close()
    return made


def epochs(pipe: Any, entries: int, count: int) -> list[list[int]]:
    numbers = flat(batches(pipe, -(-entries * count // pipe.max_batch_size)))
    return [numbers[epoch * entries : (epoch + 1) * entries] for epoch in range(count)]


def test_random_shuffle_depends_on_the_seed_alone(tmp_path: Path) -> None:
    files = write_files(tmp_path, 23)
    shuffled = {"random_shuffle": True, "initial_fill": 6}
    first = epochs(reading(files, 4, **shuffled, seed=1), 23, 3)
    assert all(sorted(epoch) == list(range(23)) for epoch in first)
    assert len({tuple(epoch) for epoch in first}) == 3
    for other in (
        {"pipe_num_threads": 5},
        {"prefetch_queue_depth": 4},
        {"pipe_prefetch_queue_depth": 5},
        {"name": "x"},
    ):
        assert epochs(reading(files, 4, **shuffled, seed=1, **other), 23, 3) == first
    assert epochs(reading(files, 7, **shuffled, seed=1), 23, 3) == first
    assert epochs(reading(files, 4, **shuffled, seed=2), 23, 3) != first
    of_pipe = [epochs(reading(files, 4, **shuffled, pipe_seed=seed), 23, 3) for seed in (3, 3, 4)]
    assert of_pipe[0] == of_pipe[1] != of_pipe[2]


def test_shards_with_different_seeds_do_not_overlap(tmp_path: Path) -> None:
    files = write_files(tmp_path, 11)
    for shuffle in ("random_shuffle", "shuffle_after_epoch"):
        sizes = [3, 4, 4]
        found = [
            flat(batches(reading(files, 1, shard_id=shard, num_shards=3, seed=shard, **{shuffle: True}), size))
            for shard, size in enumerate(sizes)
        ]
        assert sorted(flat(found)) == list(range(11)), shuffle
        assert flat(found) != list(range(11)), shuffle


def test_shuffle_after_epoch_is_a_new_order_of_the_whole_for_each_epoch(tmp_path: Path) -> None:
    files = write_files(tmp_path, 10)
    shards = [
        batches(reading(files, 2, shard_id=shard, num_shards=2, shuffle_after_epoch=True, pad_last_batch=True), 9)
        for shard in range(2)
    ]
    for epoch in range(3):
        parts = [flat(made[3 * epoch : 3 * epoch + 3]) for made in shards]
        assert [part[5] for part in parts] == [part[4] for part in parts]  # 5 of each shard, then padding
        assert sorted(parts[0][:5] + parts[1][:5]) == list(range(10))
    assert sorted(flat(shards[0][:3])) != sorted(flat(shards[0][3:6]))  # shards change, too
    other = reading(files, 2, shuffle_after_epoch=True, shuffle_after_epoch_seed=7)
    assert batches(other, 5) != batches(reading(files, 2, shuffle_after_epoch=True), 5)
