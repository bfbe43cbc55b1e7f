"""The memory of a cache: one block of memory with a fixed limit, and the values in it."""

from __future__ import annotations

import mmap
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from dali_proxy.pipeline._arrays import Bytes
from dali_proxy.pipeline._ipc.block_allocator import Block, create_allocator
from dali_proxy.pipeline._kernels.samples import Samples

#: Bytes of Python objects that an entry needs beside its values, with its name.
OVERHEAD = 832
# An entry may be evicted if it wasn't used for so many times the longest time between two uses of an entry.
_PATIENCE = 2
_NORESERVE = 0x4000  # MAP_NORESERVE, which Python's mmap doesn't name


class Part(NamedTuple):
    """One array of a value.

    Attributes:
        owner: its memory, which stays allocated as long as this object exists.
        address: the address of its first element.
        dtype: its dtype.
        shape: its shape.
    """

    owner: Any
    address: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


def parts_of(owners: Iterable[Any], addresses: Iterable[int], samples: Samples) -> Iterator[Part]:
    """Return the samples of a batch, each at its address."""
    return map(Part, owners, addresses, repeat(samples.dtype), map(tuple, samples.shapes.tolist()))


class Entry:
    """A value: the arrays of one sample.

    Attributes:
        parts: the arrays.
        layouts: the layout of each.
        used: number of look-ups before its last use.
        name: name of the file that the sample is from, by which it is found, too; None if it isn't known.
    """

    __slots__ = ("layouts", "name", "parts", "used")

    def __init__(self, parts: tuple[Part, ...], layouts: tuple[str, ...], used: int) -> None:
        self.parts, self.layouts, self.used = parts, layouts, used
        self.name: bytes | None = None


class MemoryTier:
    """Values by key. The caller holds a lock for all calls.

    Epochs use each value once, in a different order. A cache that is smaller than the data set then loses by
    every eviction: the new value isn't used earlier than the evicted one. So a full cache keeps what it has (as the
    cache MinIO of CoorDL, Mohan et al., VLDB 2021), and only evicts values that are out of use: those that weren't used
    for twice the longest time between two uses of a value (a protecting distance, Duong et al., MICRO 2012). Time is
    the number of look-ups.

    Args:
        limit: largest number of bytes.
        address: address of so many bytes of another device; None for memory on the host.

    Attributes:
        limit: see above.
        array: the memory of all values on the host. The system allocates it when it is written.
        address: address of the memory.
        evicted: number of evicted values.
        promised: number of values that have memory, but aren't added yet.
        end: end of the memory that values have used so far.
    """

    def __init__(self, limit: int, address: int | None = None) -> None:
        self.limit = limit
        reserved = _reserved(limit)
        self.array: Bytes = reserved if address is None else np.empty(0, np.uint8)
        self.address: int = reserved.ctypes.data if address is None else address
        self.evicted = self.promised = self.end = 0
        self._allocator = create_allocator(0, reserved)  # for another device, it divides addresses that have no memory
        self._entries: OrderedDict[bytes, Entry] = OrderedDict()  # the least recently used ones first
        self._keys: dict[bytes, bytes] = {}  # by name
        self._now = 0
        self._longest = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: bytes) -> bool:
        return key in self._entries

    @property
    def nbytes(self) -> int:
        """Number of bytes in use, with those of Python objects."""
        return self._allocator.used + OVERHEAD * (len(self._entries) + self.promised)

    @property
    def likely_end(self) -> int:
        """The end of the memory that is used when the tier is full, if later values are like those that it has."""
        return self.limit * self._allocator.used // max(self.nbytes, 1)

    def find(self, keys: Iterable[bytes]) -> list[Entry | None]:
        """Return the entry of each key, or None."""
        return [self._use(key) for key in keys]

    def find_named(self, names: Iterable[bytes | None]) -> list[Entry | None]:
        """Return the entry with each name, or None."""
        keys = [None if name is None else self._keys.get(name) for name in names]
        return [None if key is None else self._use(key) for key in keys]

    def give_name(self, key: bytes, name: bytes) -> None:
        """Let an entry be found by a name, too, in place of an earlier one."""
        entry = self._entries.get(key)
        if entry is not None and entry.name != name:
            self._forget_name(entry)
            entry.name = name
            self._keys[name] = key

    def peek(self, keys: Iterable[bytes]) -> list[Entry | None]:
        """Return the entry of each key, or None, without a use of it."""
        return list(map(self._entries.get, keys))

    def allocate(self, sizes: Sequence[int]) -> list[Block] | None:
        """Return memory for the arrays of a value, which is then promised; None if there is no room."""
        allocator, nbytes = self._allocator, sum(sizes) + OVERHEAD * (len(self._entries) + self.promised + 1)
        while True:
            if allocator.used + nbytes <= self.limit:
                blocks = [block for size in sizes if (block := allocator.take(size)) is not None]
                if len(blocks) == len(sizes):
                    self.promised += 1
                    for block in blocks:
                        self.end = max(self.end, block.offset + block.nbytes)
                    return blocks
                del blocks
            if not self._evict():
                return None
            nbytes -= OVERHEAD

    def add(self, key: bytes, parts: tuple[Part, ...], layouts: tuple[str, ...]) -> None:
        """Add a value that the tier doesn't have."""
        self._entries[key] = Entry(parts, layouts, self._now)

    def _use(self, key: bytes) -> Entry | None:
        self._now += 1
        entry = self._entries.get(key)
        if entry is not None:
            self._longest = max(self._longest, self._now - entry.used)
            entry.used = self._now
            self._entries.move_to_end(key)
        return entry

    def _evict(self) -> bool:
        """Evict a value that is out of use; return False if there is none."""
        oldest = next(iter(self._entries), None)
        if oldest is None:
            return False
        if self._now - self._entries[oldest].used <= _PATIENCE * max(self._longest, len(self._entries)):
            return False
        self._forget_name(self._entries.pop(oldest))
        self.evicted += 1
        return True

    def _forget_name(self, entry: Entry) -> None:
        if entry.name is not None:
            self._keys.pop(entry.name, None)


def _reserved(limit: int) -> Bytes:
    """Return memory on the host that the system allocates when it is written."""
    size = -(-limit // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)
    memory.madvise(mmap.MADV_HUGEPAGE)  # a page fault for 4 KiB would take as long as to fill them
    memory.madvise(mmap.MADV_DONTFORK)
    return np.frombuffer(memory, np.uint8)
