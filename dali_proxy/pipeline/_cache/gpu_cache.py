"""`GpuCache`: decoded values in the memory of a GPU."""

from __future__ import annotations

import heapq
import os
import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np

from dali_proxy.pipeline._cache.claims import Claim
from dali_proxy.pipeline._cache.memory_tier import Entry, MemoryTier, Part, parts_of
from dali_proxy.pipeline._cache.value_cache import ValueCache
from dali_proxy.pipeline._concurrency.locks import Level, new_lock
from dali_proxy.pipeline._cuda.context import KernelContext
from dali_proxy.pipeline._cuda.errors import cuda_call, load_cupy
from dali_proxy.pipeline._cuda.reclaiming import is_full, reclaiming
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._ipc.block_allocator import Block
from dali_proxy.pipeline._kernels.samples import Samples
from dali_proxy.pipeline._kernels.strided_copy import plan_strided_copy
from dali_proxy.pipeline.errors import ArgumentValueError, DeviceError
from dali_proxy.pipeline.tensors.gpu import TensorListGPU

_MEGABYTE = 1 << 20
# Keys that are remembered to notice that a second epoch has begun: one of so many comes soon.
_WATCHED = 1024


@dataclass(frozen=True)
class GpuCacheOptions:
    """The arguments of a decoder that describe its cache; those of DALI.

    Attributes:
        size: bytes of GPU memory.
        threshold: bytes that a value must exceed.
        largest: whether to keep the largest values of the first epoch, instead of the first ones.
    """

    size: int
    threshold: int = 0
    largest: bool = False

    @classmethod
    def from_node(cls, node: GraphNode) -> GpuCacheOptions | None:
        """Return the options of a decoder; None if it has no cache.

        Raises:
            ArgumentValueError: an argument is invalid.
        """
        given = {name: node.arguments.get(f"cache_{name}") for name in ("size", "threshold", "type")}
        size, threshold, kind = given["size"] or 0, given["threshold"] or 0, given["type"] or ""
        if size < 0 or threshold < 0:
            raise ArgumentValueError(f"{node.display}: cache_size and cache_threshold must not be negative")
        return cls(size * _MEGABYTE, threshold, kind == "largest") if size and node.device == "mixed" else None


class Written:
    """Memory that a stream has begun to write. It may be read after the CUDA event `ready`, or now without one."""

    __slots__ = ("owner", "ready")

    def __init__(self, owner: Any, ready: Any) -> None:
        self.owner, self.ready = owner, ready


class GpuCache(ValueCache):
    """Values by key in the memory of a GPU, for all executors of a process. Several threads may use it.

    Batches copy values to and from this memory on their streams. A stream that reads a value waits for the event after
    which it is written. A batch keeps what it reads and writes until its work on the GPU is done, so evicted memory is
    given to other values only when no stream uses it.

    Raises:
        DeviceError: the GPU has no room for it.
    """

    def __init__(self, options: GpuCacheOptions, device_id: int) -> None:
        self._slab = _Slab(options.size, device_id)
        super().__init__(options.size, memory=MemoryTier(options.size, self._slab.ptr))
        self.options, self.device_id, self._users = options, device_id, 1
        self._least = options.threshold + 1  # bytes of a value
        self._watched: set[bytes] | None = set() if options.largest else None  # None once an epoch was seen
        self._sizes: list[int] = []  # a heap: of the largest values so far that fit
        self._sum = 0

    @classmethod
    def shared(cls, options: GpuCacheOptions, device_id: int) -> GpuCache:
        """Return the cache of this process with these options on a GPU. Each caller must close it."""
        with _lock:
            cache = _caches.get((options, device_id))
            if cache is not None:
                cache._users += 1
                return cache
        cache = cls(options, device_id)
        with _lock:
            _caches[options, device_id] = cache
        return cache

    def close(self) -> None:
        """Free the memory, unless others use it. The caller's batches have ended."""
        with _lock:
            self._users -= 1
            if self._users:
                return
            if _caches.get((self.options, self.device_id)) is self:
                del _caches[self.options, self.device_id]
        self._slab.free()  # CUDA waits for all work on the GPU

    def reserve(self, keys: Sequence[bytes], sizes: Sequence[Sequence[int]]) -> list[list[Block] | None]:
        with self._lock:
            kept = [number for number, key in enumerate(keys) if self._is_kept(key, sum(sizes[number]))]
        if len(kept) == len(keys):
            return super().reserve(keys, sizes)
        found = super().reserve([keys[number] for number in kept], [sizes[number] for number in kept])
        reserved: list[list[Block] | None] = [None] * len(keys)
        for number, blocks in zip(kept, found, strict=True):
            reserved[number] = blocks
        return reserved

    def store_on_gpu(
        self,
        keys: Sequence[bytes],
        results: Sequence[TensorListGPU],
        kernels: KernelContext,
        stream: Any,
        keep_alive: list[Any],
    ) -> Any:
        """Store values, with copies on a stream.

        Args:
            keys: key of each sample.
            results: the arrays of all samples, a batch for each result of a part, as the stream computes them.
            kernels: context of the copies.
            stream: `cupy.cuda.Stream`; the GPU is the current device.
            keep_alive: gets what must live until the work on the stream is done.

        Returns:
            The CUDA event after which the results and their copies may be read.
        """
        tables = [each.table() for each in results]
        sizes = np.stack([table.shapes.prod(axis=1) * table.dtype.itemsize for table in tables], axis=1)
        reserved = self.reserve(keys, sizes.tolist())
        chosen = [number for number, blocks in enumerate(reserved) if blocks is not None]
        if len(chosen) < len(keys):
            tables = [table.take(np.array(chosen, np.int64)) for table in tables]
        keep_alive += [reserved, self]  # also if the copies fail: some may have begun
        values: list[tuple[Part, ...]] = []
        try:
            columns = []
            for number, table in enumerate(tables if chosen else ()):
                owners = [blocks[number] for blocks in reserved if blocks is not None]
                addresses = [self._memory.address + block.offset for block in owners]
                target = Samples.contiguous(np.array(addresses, np.int64), table.shapes, table.dtype)
                copy_samples(table, target, kernels, stream)
                columns.append((owners, addresses, table))
            event = written_on(stream, kernels)
            parts = [
                parts_of(map(Written, owners, repeat(event)), addresses, table) for owners, addresses, table in columns
            ]
            values = list(zip(*parts, strict=True))
        finally:
            layouts = tuple(each.layout() for each in results)
            self._add(keys, dict(zip(chosen, values, strict=False)), layouts, len(chosen))
        return event

    def end(self, claim: Claim, results: Sequence[Any] = ()) -> None:
        super().end(claim, () if any(each.ready is None for each in results) else results)  # not those to keep alone

    def _handed(self, results: Sequence[Any], number: int) -> Entry:
        parts = []
        for each in results:
            table = each.table()
            shape = tuple(table.shapes[number].tolist())
            parts.append(Part(Written(each, each.ready), int(table.pointers[number]), table.dtype, shape))
        return Entry(tuple(parts), tuple([each.layout() for each in results]), 0)

    def _is_kept(self, key: bytes, nbytes: int) -> bool:
        """Return whether a value is of a size that is kept. The caller holds the lock."""
        if self._watched is None:
            return nbytes >= self._least
        if key in self._watched:  # a second epoch has begun
            self._watched = None
            if self._sizes:
                self._least = max(self._least, self._sizes[0])
            return nbytes >= self._least
        if len(self._watched) < _WATCHED:
            self._watched.add(key)
        heapq.heappush(self._sizes, nbytes)
        self._sum += nbytes
        while self._sum > self._memory.limit:
            self._sum -= heapq.heappop(self._sizes)
        return False


def copy_samples(source: Samples, target: Samples, kernels: KernelContext, stream: Any) -> None:
    """Copy samples to contiguous memory, in one launch."""
    launch = plan_strided_copy(source, target)
    if launch is not None:
        kernels.run(launch, stream)


def written_on(stream: Any, kernels: KernelContext) -> Any:
    """Return a CUDA event after all that this thread has issued to a stream, also what waits in its queue."""
    kernels.flush()
    with cuda_call("cudaEventRecord"):
        event = load_cupy().cuda.Event(disable_timing=True)
        event.record(stream)
    return event


def wait_for(parts: Sequence[Part], stream: Any) -> None:
    """Let a stream wait until parts are written."""
    ready = [part.owner.ready for part in parts]  # once: other threads may find that an event has completed
    events = {id(event): event for event in ready if event is not None}
    done = {number for number, event in events.items() if event.done}
    for part, event in zip(parts, ready, strict=True) if done else ():
        if id(event) in done:
            part.owner.ready = None
    for number, event in events.items():
        if number not in done:
            stream.wait_event(event)


_caches: weakref.WeakValueDictionary[tuple[GpuCacheOptions, int], GpuCache] = weakref.WeakValueDictionary()
_lock = new_lock(Level.LEAF, "caches of GPUs")


class _Slab:
    """Memory of a GPU, outside of CuPy's pools, until this object is dropped. A forked child doesn't free it."""

    def __init__(self, nbytes: int, device_id: int) -> None:
        cupy = load_cupy()
        runtime = cupy.cuda.runtime
        with cupy.cuda.Device(device_id):
            try:
                self.ptr = int(reclaiming(runtime.malloc)(nbytes))
            except Exception as error:
                if not is_full(error):
                    raise
                free, total = runtime.memGetInfo()
                raise DeviceError(
                    f"GPU {device_id} has no room for a cache of {nbytes >> 20} MB (cache_size): {free >> 20} of its "
                    f"{total >> 20} MB are free"
                ) from error
        self.free = weakref.finalize(self, _free, runtime, self.ptr, os.getpid())
        self.free.atexit = False


def _free(runtime: Any, pointer: int, owner: int) -> None:
    if owner == os.getpid():
        with suppress(runtime.CUDARuntimeError):  # the context and its memory are gone
            runtime.free(pointer)
