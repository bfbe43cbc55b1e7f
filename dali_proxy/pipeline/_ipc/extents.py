"""An allocator of ranges in a block of memory. It doesn't own the memory."""

from __future__ import annotations

from bisect import bisect_left, insort


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
