from __future__ import annotations

import gc

import numpy as np

from dali_proxy.pipeline._cuda.views import Lease, lent_array


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
