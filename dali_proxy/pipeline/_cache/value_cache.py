"""`ValueCache`: the values that deterministic parts of graphs have computed, by the content of their inputs."""

from __future__ import annotations

import os
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dali_proxy.pipeline._bulk.buffer_pool import lent_array
from dali_proxy.pipeline._bulk.gather import copy_ranges
from dali_proxy.pipeline._cache.claims import Claim
from dali_proxy.pipeline._cache.disk_tier import DiskTier
from dali_proxy.pipeline._cache.keys import describe_software
from dali_proxy.pipeline._cache.memory_tier import Entry, MemoryTier, Part, parts_of
from dali_proxy.pipeline._cache.options import CacheOptions
from dali_proxy.pipeline._cache.pages_ahead import PagesAhead
from dali_proxy.pipeline._concurrency.locks import Level, new_lock
from dali_proxy.pipeline._ipc.block_allocator import Block
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU

if TYPE_CHECKING:
    from dali_proxy.pipeline._concurrency.thread_pool import ThreadPool

# Values that a thread reads per task.
_GROUP = 4


@dataclass
class CacheCounters:
    """What a cache has done.

    Attributes:
        hits: number of values that it had.
        misses: number of values that it didn't have.
        loaded: number of hits that were read from the disk.
        refused: number of values that it had no room for.
        evicted: number of values that weren't used any more, and gave their memory to others.
        seconds_saved: processor time that the hits would have taken without it, minus what they took.
    """

    hits: int = 0
    misses: int = 0
    loaded: int = 0
    refused: int = 0
    evicted: int = 0
    seconds_saved: float = 0.0


class ValueCache:
    """Values by key, for all executors of a process. Several threads may use it.

    Args:
        limit: largest number of bytes of memory.
        disk: has values that aren't in memory, or None.
        memory: the memory; None for memory on the host.

    Attributes:
        seed: secret of the keys.
        software: description of the software that computes the values, if another one may find them; else empty.
        pages: allocates the memory of later values.

    Example:
        >>> cache = ValueCache(1 << 20)
        >>> cache.find([b"key"])
        [None]
        >>> stored = cache.store([b"key"], [TensorListCPU([np.arange(3)])])
        >>> cache.find([b"key"])[0].parts[0].shape
        (3,)
    """

    def __init__(self, limit: int, disk: DiskTier | None = None, memory: MemoryTier | None = None) -> None:
        self._lock = new_lock(Level.LEAF, "value cache")
        self._memory = MemoryTier(limit) if memory is None else memory
        self.pages = PagesAhead(self._memory.array)
        self._disk = disk
        self._claims: dict[bytes, Claim] = {}
        self._counters = CacheCounters()
        self.seed = secrets.randbits(64) if disk is None else disk.seed
        self.software = b"" if disk is None else describe_software()

    @classmethod
    def from_argument(cls, argument: Any) -> ValueCache | None:
        """Return the cache that a user has described, see `CacheOptions`; None for no cache.

        Raises:
            ArgumentValueError: its folder can't be used, or it is larger than the memory of the machine.
        """
        options = CacheOptions.from_argument(argument, "cache")
        if not options.memory:
            return None
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        if options.memory > memory:
            raise ArgumentValueError(
                f"a cache of {options.memory} bytes is larger than the memory of this machine ({memory} bytes)"
            )
        disk = DiskTier(options.folder, options.disk) if options.folder else None
        return cls(options.memory, disk)

    def find(self, keys: Sequence[bytes], pool: ThreadPool | None = None) -> list[Entry | None]:
        """Return the entry of each key, or None. An entry stays valid while the caller keeps it.

        Threads of the pool read files; without it, the calling thread does.
        """
        with self._lock:
            found = self._memory.find(keys)
        if self._disk is not None:
            before = found.count(None)
            self._load(keys, found, pool)
            loaded = before - found.count(None)
        else:
            loaded = 0
        hits = len(found) - found.count(None)
        with self._lock:
            self._counters.hits += hits
            self._counters.misses += len(found) - hits
            self._counters.loaded += loaded
        return found

    def find_named(self, names: Sequence[bytes | None]) -> list[Entry | None]:
        """Return the entries of files by their names, see `give_names`; None for each that must be found by its key."""
        with self._lock:
            found = self._memory.find_named(names)
            self._counters.hits += len(found) - found.count(None)
        return found

    def give_names(self, keys: Sequence[bytes], names: Sequence[bytes | None]) -> None:
        """Let values be found by the names of their files, too, if they are stored."""
        with self._lock:
            for key, name in zip(keys, names, strict=True):
                if name is not None:
                    self._memory.give_name(key, name)

    def claim(self, keys: Sequence[bytes]) -> tuple[Claim, list[Entry | Claim | None]]:
        """Claim values that the cache doesn't have. `end` must follow.

        Args:
            keys: keys of these values.

        Returns:
            The claim, and for each key: None if the caller must compute the value, the claim of the batch that does,
            or the entry that the cache has by now.
        """
        own = Claim()
        found: list[Entry | Claim | None] = []
        with self._lock:
            for key, entry in zip(keys, self._memory.peek(keys), strict=True):
                holder = self._claims.get(key)
                if entry is None and holder is None:
                    self._claims[key] = own
                    own.keys.append(key)
                elif entry is None and holder is not None:
                    holder.wanted.add(key)
                found.append(entry or holder)
        return own, found

    def end(self, claim: Claim, results: Sequence[Any] = ()) -> None:
        """Let those continue that wait for a claim, and others claim its keys. Any thread may call this, several times.

        The results are a batch for each result of a part; empty if they couldn't be computed.
        """
        with self._lock:
            for key in claim.keys:
                if self._claims.get(key) is claim:
                    del self._claims[key]
            wanted = [
                number for number, key in enumerate(claim.keys) if key in claim.wanted and key not in self._memory
            ]
        for number in wanted if results else ():
            claim.handed[claim.keys[number]] = self._handed(results, number)
        claim.ended.set()

    def _handed(self, results: Sequence[Any], number: int) -> Entry:
        """Return a value for batches that wait for it, from the results of a part."""
        arrays = [np.array(each.samples[number], order="C") for each in results]  # copies: memory may be reused
        return _entry(arrays, [each.layout() for each in results])

    def wait(self, keys: Sequence[bytes], claims: Sequence[Entry | Claim]) -> list[Entry | None]:
        """Return the entry of each key when the claims have ended that `claim` has returned; None if one has failed."""
        for each in claims:
            if isinstance(each, Claim):
                each.ended.wait()
        with self._lock:
            found = self._memory.peek(keys)
            for number, (key, each) in enumerate(zip(keys, claims, strict=True)):
                found[number] = (each.handed.get(key) if isinstance(each, Claim) else each) or found[number]
            late = len(found) - found.count(None)
            self._counters.hits += late
            self._counters.misses -= late
        return found

    def reserve(self, keys: Sequence[bytes], sizes: Sequence[Sequence[int]]) -> list[list[Block] | None]:
        """Return memory for the arrays of each sample; None where the cache has the value already, or no room.

        `store` or `release` must follow.
        """
        with self._lock:
            reserved = []
            for key, nbytes in zip(keys, sizes, strict=True):
                room = None if key in self._memory else self._memory.allocate(nbytes)
                self._counters.refused += room is None and key not in self._memory
                reserved.append(room)
            self._counters.evicted = self._memory.evicted
            end, most = self._memory.end, self._memory.likely_end
        self.pages.use(end, most)
        return reserved

    def release(self, reserved: Sequence[list[Block] | None]) -> None:
        """Give back memory that was reserved for values that couldn't be computed."""
        with self._lock:
            self._memory.promised -= len(reserved) - reserved.count(None)

    def memory_of(self, owners: Sequence[Block]) -> Array:
        """Return all bytes of the memory. Some blocks in it stay allocated while an array over it exists."""
        return lent_array(self._memory.array, owners)

    def store(
        self,
        keys: Sequence[bytes],
        results: Sequence[TensorListCPU],
        pool: ThreadPool | None = None,
        reserved: Sequence[list[Block] | None] | None = None,
        loaded: bool = False,
    ) -> list[Entry | None]:
        """Store values. Return the entry of each; None for each that doesn't fit.

        Args:
            keys: key of each sample.
            results: the arrays of all samples, a batch for each result of a part.
            pool: threads that copy; None for the calling thread.
            reserved: memory of the samples from `reserve`, which may have the arrays already; None to reserve it.
            loaded: whether they come from the disk.
        """
        results = list(map(contiguous, results))
        tables = [each.table() for each in results]
        if reserved is None:
            reserved = self.reserve(keys, np.stack([table.sizes for table in tables], axis=1).tolist())
        layouts = tuple(each.layout() for each in results)
        chosen = [sample for sample, blocks in enumerate(reserved) if blocks is not None]
        if len(chosen) < len(keys):
            tables = [table.take(np.array(chosen, np.int64)) for table in tables]
        values: list[tuple[Part, ...]] = []
        try:
            columns = []
            for number, table in enumerate(tables):
                owners = [blocks[number] for blocks in reserved if blocks is not None]
                addresses = [self._memory.address + block.offset for block in owners]
                if table.pointers.tolist() != addresses:  # else they were computed there
                    offsets = np.array(addresses, np.int64) - self._memory.address
                    copy_ranges(self._memory.array, np.ascontiguousarray(table.pointers), table.sizes, offsets, pool)
                columns.append(parts_of(owners, addresses, table))
            values = list(zip(*columns, strict=True))
        finally:  # an interrupt leaves the list of values empty
            entries = self._add(keys, dict(zip(chosen, values, strict=False)), layouts, len(chosen))
        if self._disk is not None and not loaded:
            for sample, key in enumerate(keys):
                self._disk.store(key, [each.samples[sample] for each in results], layouts)
        return entries

    def _add(
        self, keys: Sequence[bytes], values: Mapping[int, tuple[Part, ...]], layouts: tuple[str, ...], promised: int
    ) -> list[Entry | None]:
        """Add values, by sample, for which memory was promised. Return the entry of each key."""
        with self._lock:
            self._memory.promised -= promised
            for sample, parts in values.items():
                if keys[sample] not in self._memory:  # another thread, or an equal sample of the batch
                    self._memory.add(keys[sample], parts, layouts)
            return self._memory.peek(keys)

    def _load(self, keys: Sequence[bytes], found: list[Entry | None], pool: ThreadPool | None) -> None:
        """Read values that the memory doesn't have from the disk, and keep them in memory."""
        disk = self._disk
        missing = [number for number, entry in enumerate(found) if entry is None]
        if disk is None or not missing:
            return

        def load(begin: int, end: int) -> None:
            for number in missing[begin:end]:
                value = disk.load(keys[number])
                if value is not None:
                    found[number] = _entry(*value)

        if pool is None:
            load(0, len(missing))
        else:
            pool.run_ranges(load, len(missing), _GROUP)
        for number in missing:
            entry = found[number]
            if entry is not None:
                batches = [
                    TensorListCPU.from_dense(part.owner[np.newaxis], layout)
                    for part, layout in zip(entry.parts, entry.layouts, strict=True)
                ]
                self.store([keys[number]], batches, loaded=True)

    def save(self, nanoseconds: float) -> None:
        """Count processor time that hits have saved, or cost if it is negative."""
        with self._lock:
            self._counters.seconds_saved += float(nanoseconds) / 1e9

    def report(self) -> dict[str, float]:
        """Return the counters, and what the cache holds. The names begin with ``cache_``."""
        with self._lock:
            memory = self._memory
            counters = {**vars(self._counters), "values": len(memory), "bytes": memory.nbytes, "limit": memory.limit}
        return {f"cache_{name}": value for name, value in counters.items()}

    def close(self) -> None:
        """End the threads. What waits for the disk is written; values aren't stored there any more."""
        self.pages.close()
        if self._disk is not None:
            self._disk.close()


def total_report(caches: Iterable[ValueCache]) -> dict[str, float]:
    """Return the sum of what different caches report, such as those of the host and of a GPU."""
    total: Counter[str] = Counter()
    for cache in dict.fromkeys(caches):
        total.update(cache.report())
    return dict(total)


def _entry(arrays: Sequence[Array], layouts: Sequence[str]) -> Entry:
    """Return a value in memory of its own."""
    return Entry(tuple([Part(each, each.ctypes.data, each.dtype, each.shape) for each in arrays]), tuple(layouts), 0)


def contiguous(batch: TensorListCPU) -> TensorListCPU:
    """Return a batch whose samples are C-contiguous: itself, or a copy."""
    if batch.table().is_contiguous():
        return batch
    return TensorListCPU([np.ascontiguousarray(sample) for sample in batch.samples], batch.layout())
