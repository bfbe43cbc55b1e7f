"""Allocation of blocks for samples in a segment of shared memory."""

from __future__ import annotations

import itertools
from array import array
from collections import deque
from operator import add, attrgetter, itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._ipc.extents import Extents
from dali_proxy.pipeline._native import find_compiled

ALIGNMENT = 64  # bytes: a cache line; good for SIMD loads and DMA, too
_SHIFT = 6

compiled = find_compiled("_ipc")
"""The compiled module `_native`, or None."""


class Block:
    """`nbytes` bytes at `offset` of the segment `segment_id`, whose memory is `array`.

    They stay allocated while this object lives; finalizers may drop it.
    """

    __slots__ = ("_allocator", "nbytes", "offset")

    def __init__(self, allocator: BlockAllocator, offset: int, nbytes: int) -> None:
        self._allocator = allocator
        self.offset = offset
        self.nbytes = nbytes

    @property
    def segment_id(self) -> int:
        """Number of the segment."""
        return self._allocator.segment_id

    @property
    def array(self) -> npt.NDArray[np.uint8]:
        """Memory of the segment."""
        return self._allocator.array

    def __repr__(self) -> str:
        return f"Block(segment_id={self.segment_id}, offset={self.offset}, nbytes={self.nbytes})"

    def __del__(self) -> None:
        self._allocator.dropped.append((self.offset >> _SHIFT, _units(self.nbytes)))


class BlockAllocator:
    """Allocates the blocks of one segment. The caller holds a lock; dropping a block needs none.

    Args:
        segment_id: number of the segment.
        array: ``uint8[...]`` over the segment.
    """

    def __init__(self, segment_id: int, array: npt.NDArray[np.uint8]) -> None:
        self.segment_id = segment_id
        self.array = array
        #: Extents that finalizers have dropped: they must not take the lock, and append() needs none.
        self.dropped: deque[tuple[int, int]] = deque()
        self._extents = Extents(array.nbytes >> _SHIFT)

    @property
    def used(self) -> int:
        """Allocated bytes, rounded up to the alignment."""
        self._reclaim()
        return self._extents.used << _SHIFT

    def take(self, nbytes: int) -> Block | None:
        """Allocate a block of `nbytes` bytes; return None if there is no space."""
        self._reclaim()
        start = self._extents.take(_units(nbytes))
        return None if start is None else Block(self, start << _SHIFT, nbytes)

    def write(self, arrays: list[npt.NDArray[Any]]) -> tuple[Block, ...] | None:
        """Allocate a block for each array and copy it there if that is fast; return None if not, or without space."""
        return None

    def _reclaim(self) -> None:
        while self.dropped:
            self._extents.give(*self.dropped.popleft())


def table_of(blocks: list[tuple[Block, ...]], shapes: list[tuple[tuple[int, ...], ...]], number: int) -> bytes:
    """Return the segment, offset and shape of one input of samples, as the bytes of int64 rows.

    Args:
        blocks: the blocks of all inputs of each sample.
        shapes: the shapes of all inputs of each sample; those of this input have the same length.
        number: number of the input.
    """
    if compiled is not None:
        made: bytes = compiled.rows(blocks, shapes, number)
        return made
    places = map(_PLACE, map(itemgetter(number), blocks))
    return array("q", itertools.chain.from_iterable(map(add, places, map(itemgetter(number), shapes)))).tobytes()


_PLACE = attrgetter("segment_id", "offset")


def _units(nbytes: int) -> int:
    return (nbytes + ALIGNMENT - 1) >> _SHIFT or 1


create_allocator: type[BlockAllocator] = BlockAllocator if compiled is None else compiled.BlockAllocator
"""Creates the allocator of a segment: the compiled one if it exists."""
