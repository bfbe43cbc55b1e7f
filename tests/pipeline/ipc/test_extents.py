from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dali_proxy.pipeline._ipc.extents import Extents


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
