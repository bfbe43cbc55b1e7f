"""Allocation of blocks for samples in a segment of shared memory."""

from __future__ import annotations

import itertools
from array import array
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable
from operator import add, attrgetter, itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._native import find_compiled

ALIGNMENT = 64  # bytes: a cache line; good for SIMD loads and DMA, too
_SHIFT = 6

compiled = find_compiled("_ipc")
"""The compiled module `_native`, or None."""


class Extents:
    """Free extents of a space of `size` units, kept sorted, neighbours merged.

    It takes the lowest extent that fits, so used memory stays near the start: memory that was never touched costs
    nothing, and memory that was used recently is still in the cache.

    Example:
        >>> extents = Extents(100)
        >>> extents.take(30), extents.take(30), extents.take(50)
        (0, 30, None)
        >>> extents.give(0, 30)
        >>> extents.take(10)
        0
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.free = size
        self._starts = [0]  # sorted
        self._lengths = {0: size}  # start -> length; the same keys as _starts

    @property
    def used(self) -> int:
        """Number of units in use."""
        return self.size - self.free

    def take(self, length: int) -> int | None:
        """Take `length` units (above 0), and return their start; None if no extent is that long."""
        if length > self.free:
            return None
        lengths = self._lengths
        for index, start in enumerate(self._starts):
            room = lengths[start]
            if room < length:
                continue
            del lengths[start]
            if room == length:
                del self._starts[index]
            else:
                self._starts[index] = start + length
                lengths[start + length] = room - length
            self.free -= length
            return start
        return None

    def give(self, start: int, length: int) -> None:
        """Give back what `take` returned."""
        starts, lengths = self._starts, self._lengths
        self.free += length
        index = bisect_left(starts, start)
        if index < len(starts) and starts[index] == start + length:
            length += lengths.pop(starts.pop(index))
        if index > 0 and starts[index - 1] + lengths[starts[index - 1]] == start:
            lengths[starts[index - 1]] += length
        else:
            insort(starts, start)
            lengths[start] = length


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


def _units(nbytes: int) -> int:
    return (nbytes + ALIGNMENT - 1) >> _SHIFT or 1


create_allocator: type[BlockAllocator] = BlockAllocator if compiled is None else compiled.BlockAllocator
"""Creates the allocator of a segment: the compiled one if it exists."""

_PLACE = attrgetter("segment_id", "offset")
_Blocks = list[tuple[Block, ...]]
_Shapes = list[tuple[tuple[int, ...], ...]]


def _table_of(blocks: _Blocks, shapes: _Shapes, number: int) -> bytes:
    places = map(_PLACE, map(itemgetter(number), blocks))
    return array("q", itertools.chain.from_iterable(map(add, places, map(itemgetter(number), shapes)))).tobytes()


table_of: Callable[[_Blocks, _Shapes, int], bytes] = _table_of if compiled is None else compiled.rows
"""``table_of(blocks, shapes, number)`` returns the segment, offset and shape of one input of samples, as int64 rows.

`blocks` and `shapes` are those of all inputs of each sample; the shapes of input `number` have the same length.
"""
