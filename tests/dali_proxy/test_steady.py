"""Nothing is kept for finished batches. The tests count objects, which other programs can't influence."""

from __future__ import annotations

import gc
import mmap
import os
import struct
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from torch.utils.data import get_worker_info

from dali_proxy import DALIServer, DataLoader
from tests.dali_proxy.indexed import IndexDataset, affine

BATCH = 4
FEW = 30  # descriptors: of batches in flight, whose number grows while they are slow; one per batch would be 300
BLOCKS = 5
BLOCK = 300  # batches
SLACK = 150  # objects: of batches in flight and of finished epochs (a few each); one object per batch would be 300


class Counting(IndexDataset):
    """Counts the objects of its worker after each block of batches, in memory that both processes share."""

    def __init__(self, length: int, proxy: Callable[[Any], Any], page: mmap.mmap) -> None:
        super().__init__(length, proxy)
        self.page = page
        self.calls = 0

    def __getitem__(self, index: int) -> Any:
        if self.calls % (BLOCK * BATCH) == 0 and get_worker_info() is not None:
            struct.pack_into("qq", self.page, 16 * (self.calls // (BLOCK * BATCH)), *counted())
        self.calls += 1
        return super().__getitem__(index)


def counted() -> tuple[int, int]:
    """Return the numbers of objects and descriptors of this process."""
    gc.collect()
    return sys.getallocatedblocks(), len(os.listdir("/proc/self/fd"))


def watched(server: DALIServer, blocks: int, epochs: int, page: mmap.mmap) -> Iterator[tuple[int, int]]:
    """Yield the counts of this process after each block of batches, including the server, which runs on threads."""
    dataset = Counting(blocks * BLOCK * BATCH // epochs, server.proxy, page)
    loader = DataLoader(server, dataset, BATCH, num_workers=1, persistent_workers=True)
    made = 0
    for _ in range(epochs):
        for _ in loader:
            made += 1
            if made % BLOCK == 0:
                yield counted()


def check(counts: list[tuple[int, int]]) -> None:
    """Fail if every block of batches left objects behind; a single block may: it imports modules."""
    left = [(after[0] - before[0], after[1] - before[1]) for before, after in pairwise(counts[1:])]
    assert min(objects for objects, _ in left) < SLACK, counts
    assert min(descriptors for _, descriptors in left) < FEW, counts


def test_memory_holds_nothing_of_past_batches() -> None:
    with mmap.mmap(-1, 4096) as page, DALIServer(affine(), mode="thread") as server:
        check(list(watched(server, BLOCKS, 1, page)))
        check([struct.unpack_from("qq", page, 16 * block) for block in range(BLOCKS)])


def test_memory_holds_nothing_of_past_epochs() -> None:
    with mmap.mmap(-1, 4096) as page, DALIServer(affine(), mode="thread") as server:
        check(list(watched(server, BLOCKS, 30, page)))  # epochs of 50 batches
        check([struct.unpack_from("qq", page, 16 * block) for block in range(BLOCKS)])
