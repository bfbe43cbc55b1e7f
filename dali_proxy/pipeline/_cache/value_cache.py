"""`ValueCache`: the values that deterministic parts of graphs have computed, by the content of their inputs."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dali_proxy.pipeline._bulk.gather import copy_ranges
from dali_proxy.pipeline._cache.disk_tier import DiskTier
from dali_proxy.pipeline._cache.keys import describe_software
from dali_proxy.pipeline._cache.memory_tier import Entry, MemoryTier, Part
from dali_proxy.pipeline._cache.options import CacheOptions
from dali_proxy.pipeline._concurrency.locks import Level, new_lock
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import TensorListCPU

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

    Attributes:
        seed: secret of the keys.
        software: description of the software that computes the values, if another one may find them; else empty.

    Example:
        >>> cache = ValueCache(1 << 20)
        >>> cache.find([b"key"])
        [None]
        >>> cache.store([b"key"], [TensorListCPU([np.arange(3)])])
        >>> cache.find([b"key"])[0].parts[0].shape
        (3,)
    """

    def __init__(self, limit: int, disk: DiskTier | None = None) -> None:
        self._lock = new_lock(Level.LEAF, "value cache")
        self._memory = MemoryTier(limit)
        self._disk = disk
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

        Args:
            keys: the keys.
            pool: threads that read files; None for the calling thread.
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

    def store(
        self,
        keys: Sequence[bytes],
        results: Sequence[TensorListCPU],
        pool: ThreadPool | None = None,
        loaded: bool = False,
    ) -> None:
        """Store values.

        Args:
            keys: key of each sample.
            results: the arrays of all samples, a batch for each result of a part.
            pool: threads that copy; None for the calling thread.
            loaded: whether they come from the disk.
        """
        results = list(map(contiguous, results))
        tables = [each.table() for each in results]
        sizes = np.stack([table.sizes for table in tables], axis=1).tolist()
        layouts = tuple(each.layout() for each in results)
        chosen: list[int] = []
        blocks = []
        with self._lock:
            for sample, key in enumerate(keys):
                room = None if key in self._memory else self._memory.allocate(sizes[sample])
                if room is not None:
                    chosen.append(sample)
                    blocks.append(room)
                elif key not in self._memory:
                    self._counters.refused += 1
            self._counters.evicted = self._memory.evicted
        rows = np.array(chosen, np.int64)
        values: list[tuple[Part, ...]] = []
        try:
            columns: list[list[Part]] = []
            for number, (table, result) in enumerate(zip(tables, results, strict=True)):
                offsets = np.array([each[number].offset for each in blocks], np.int64)
                pointers, nbytes = np.ascontiguousarray(table.pointers[rows]), np.ascontiguousarray(table.sizes[rows])
                copy_ranges(self._memory.array, pointers, nbytes, offsets, pool, result)
                addresses, shapes = (offsets + self._memory.address).tolist(), map(tuple, table.shapes[rows].tolist())
                owners = [each[number] for each in blocks]
                kinds = zip(owners, addresses, shapes, strict=True)
                columns.append([Part(owner, address, table.dtype, shape) for owner, address, shape in kinds])
            values = list(zip(*columns, strict=True))
        finally:
            with self._lock:
                self._memory.promised -= len(chosen)
                for sample, parts in zip(chosen, values, strict=False):  # there are none after an interrupt
                    if keys[sample] not in self._memory:  # another thread, or an equal sample of the batch
                        self._memory.add(keys[sample], parts, layouts)
        if self._disk is not None and not loaded:
            for sample, key in enumerate(keys):
                self._disk.store(key, [each.samples[sample] for each in results], layouts)

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
                    arrays, layouts = value
                    parts = tuple([Part(each, each.ctypes.data, each.dtype, each.shape) for each in arrays])
                    found[number] = Entry(parts, layouts, 0)

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
        """Write what waits for the disk. Values aren't stored there any more."""
        if self._disk is not None:
            self._disk.close()


def contiguous(batch: TensorListCPU) -> TensorListCPU:
    """Return a batch whose samples are C-contiguous: itself, or a copy."""
    if batch.table().is_contiguous():
        return batch
    return TensorListCPU([np.ascontiguousarray(sample) for sample in batch.samples], batch.layout())
