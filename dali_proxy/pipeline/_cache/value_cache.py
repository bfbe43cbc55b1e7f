"""`ValueCache`: the values that deterministic parts of graphs have computed, by the content of their inputs."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dali_proxy.pipeline._bulk.gather import copy_ranges
from dali_proxy.pipeline._cache.memory_tier import Entry, MemoryTier, Part
from dali_proxy.pipeline._concurrency.locks import Level, new_lock
from dali_proxy.pipeline.tensors.cpu import TensorListCPU

if TYPE_CHECKING:
    from dali_proxy.pipeline._concurrency.thread_pool import ThreadPool


@dataclass
class CacheCounters:
    """What a cache has done.

    Attributes:
        hits: number of values that it had.
        misses: number of values that it didn't have.
        refused: number of values that it had no room for.
        evicted: number of values that weren't used any more, and gave their memory to others.
        seconds_saved: processor time that the hits would have taken without it, minus what they took.
    """

    hits: int = 0
    misses: int = 0
    refused: int = 0
    evicted: int = 0
    seconds_saved: float = 0.0


class ValueCache:
    """Values by key, for all executors of a process. Several threads may use it.

    Args:
        limit: largest number of bytes of memory.

    Example:
        >>> cache = ValueCache(1 << 20)
        >>> cache.find([b"key"])
        [None]
        >>> cache.store([b"key"], [TensorListCPU([np.arange(3)])])
        >>> cache.find([b"key"])[0].parts[0].shape
        (3,)
    """

    def __init__(self, limit: int) -> None:
        self._lock = new_lock(Level.LEAF, "value cache")
        self._memory = MemoryTier(limit)
        self._counters = CacheCounters()
        #: Secret of the keys.
        self.seed = secrets.randbits(64)

    def find(self, keys: Sequence[bytes]) -> list[Entry | None]:
        """Return the entry of each key, or None. An entry stays valid while the caller keeps it."""
        with self._lock:
            found = self._memory.find(keys)
            hits = len(found) - found.count(None)
            self._counters.hits += hits
            self._counters.misses += len(found) - hits
        return found

    def store(self, keys: Sequence[bytes], results: Sequence[TensorListCPU], pool: ThreadPool | None = None) -> None:
        """Store values.

        Args:
            keys: key of each sample.
            results: the arrays of all samples, a batch for each result of a part.
            pool: threads that copy; None for the calling thread.
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
        if not chosen:
            return
        rows = np.array(chosen)
        values: list[tuple[Part, ...]] = []
        try:
            for number, (table, result) in enumerate(zip(tables, results, strict=True)):
                offsets = np.array([each[number].offset for each in blocks])
                pointers, nbytes = np.ascontiguousarray(table.pointers[rows]), np.ascontiguousarray(table.sizes[rows])
                copy_ranges(self._memory.array, pointers, nbytes, offsets, pool, result)
            shapes = [list(map(tuple, table.shapes[rows].tolist())) for table in tables]
            for room, *extents in zip(blocks, *shapes, strict=True):
                kinds = zip(room, tables, extents, strict=True)
                values.append(tuple([Part(block, table.dtype, shape) for block, table, shape in kinds]))
        finally:
            with self._lock:
                self._memory.promised -= len(chosen)
                for sample, parts in zip(chosen, values, strict=False):  # there are none after an interrupt
                    if keys[sample] not in self._memory:  # another thread, or an equal sample of the batch
                        self._memory.add(keys[sample], parts, layouts)

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

    def address(self, part: Part) -> int:
        """Return the address of an array of an entry."""
        return int(self._memory.array.ctypes.data) + part.block.offset


def contiguous(batch: TensorListCPU) -> TensorListCPU:
    """Return a batch whose samples are C-contiguous: itself, or a copy."""
    if batch.table().is_contiguous():
        return batch
    return TensorListCPU([np.ascontiguousarray(sample) for sample in batch.samples], batch.layout())
