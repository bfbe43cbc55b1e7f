"""The memory of a cache: its limit, and which values it gives up."""

from __future__ import annotations

import mmap

import numpy as np
import pytest

from dali_proxy.pipeline._cache.memory_tier import OVERHEAD, MemoryTier, Part

VALUE = 1000 * 64  # bytes


def look_up(tier: MemoryTier, key: bytes, size: int = VALUE) -> bool:
    """Find or add a value; return whether it was there."""
    if tier.find([key]) != [None]:
        return True
    blocks = tier.allocate([size])
    if blocks is not None:
        tier.promised -= 1
        tier.add(key, (Part(blocks[0], tier.address + blocks[0].offset, np.dtype(np.uint8), (size,)),), ("",))
    return False


def room_for(count: int) -> int:
    return count * (VALUE + OVERHEAD)


def hit_rate(tier: MemoryTier, keys: int, epochs: int, first: int = 0) -> float:
    """Return the share of values that shuffled epochs found, after the first epoch."""
    found = 0
    for epoch in range(epochs):
        for key in np.random.default_rng(epoch).permutation(keys).tolist():
            found += look_up(tier, f"{first + key}".encode()) and epoch > 0
    return found / keys / (epochs - 1)


def test_values_fill_the_limit_and_never_exceed_it() -> None:
    tier = MemoryTier(room_for(10))
    for key in range(10):
        look_up(tier, str(key).encode())
    assert len(tier) == 10
    assert tier.nbytes == tier.limit
    look_up(tier, b"one more")
    assert tier.nbytes <= tier.limit
    assert len(tier) == 10


def test_limit_is_rounded_to_pages_at_most() -> None:
    assert MemoryTier(1).array.nbytes == mmap.PAGESIZE


def test_value_that_is_larger_than_the_limit_is_refused_and_evicts_nothing() -> None:
    tier = MemoryTier(room_for(2))
    look_up(tier, b"a")
    assert tier.allocate([room_for(3)]) is None
    assert b"a" in tier


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_shuffled_epochs_find_as_much_as_fits(share: float) -> None:
    tier = MemoryTier(room_for(int(500 * share)))
    assert hit_rate(tier, 500, 6) == pytest.approx(share, abs=0.05)


def test_values_that_are_not_used_any_more_make_room_for_others() -> None:
    tier = MemoryTier(room_for(100))
    hit_rate(tier, 100, 3)
    assert hit_rate(tier, 100, 12, first=1000) > 0.4
    assert b"0" not in tier


def test_evicted_value_stays_valid_while_it_is_read() -> None:
    tier = MemoryTier(room_for(1))
    look_up(tier, b"a")
    (entry,) = tier.find([b"a"])
    assert entry is not None
    offset = entry.parts[0].owner.offset
    for number in range(20):
        look_up(tier, str(number).encode())
    assert b"a" not in tier
    held = tier.allocate([VALUE])
    assert held is None  # its only room is in use
    del entry
    blocks = tier.allocate([VALUE])
    assert blocks is not None
    assert blocks[0].offset == offset
