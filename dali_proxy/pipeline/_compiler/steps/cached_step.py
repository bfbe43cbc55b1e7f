"""Run a part of a graph whose results a cache may have: only for the samples that it doesn't have."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dali_proxy.pipeline._arrays import Int64s
from dali_proxy.pipeline._bulk.buffer_pool import BufferPool
from dali_proxy.pipeline._bulk.gather import copy_ranges
from dali_proxy.pipeline._bulk.paths import PathTable
from dali_proxy.pipeline._cache.claims import Claim
from dali_proxy.pipeline._cache.file_names import file_names
from dali_proxy.pipeline._cache.keys import sample_keys
from dali_proxy.pipeline._cache.memory_tier import Entry
from dali_proxy.pipeline._cache.value_cache import ValueCache, contiguous
from dali_proxy.pipeline._compiler.plan import PartStep
from dali_proxy.pipeline._compiler.steps.step import Step
from dali_proxy.pipeline._concurrency.cost import charged, spent
from dali_proxy.pipeline._graph.graph import Edge
from dali_proxy.pipeline._ipc.block_allocator import Block
from dali_proxy.pipeline._kernels.samples import Samples
from dali_proxy.pipeline._operator_api.batch import Batch, BatchView
from dali_proxy.pipeline._operator_api.branch_batches import take_samples
from dali_proxy.pipeline._operator_api.outputs import Outputs
from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline._remote.urls import SCHEME_OF_FILES
from dali_proxy.pipeline.errors import OperatorError
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU

# Positions of samples, and the results of a part for them.
Computed = tuple[Int64s, list[Any]]
_NOTHING: Array = np.empty(0, np.uint8)
# Bytes of a result up to which copies cost less than arrays over the samples.
_SMALL = 1 << 20


class CachedStep(Step):
    """Takes the results of a part from a cache. Runs the part for the samples that the cache doesn't have.

    Operators read large results where the cache keeps them: these arrays are read-only, and stay allocated while they
    are used. A decoder writes its images there. What the pipeline returns is a copy.

    Args:
        planned: the part.
        steps: the steps that compute it.
        cache: the cache.
        outputs: the edges that the pipeline returns.
        reading_gpu: GPU that reads the results, or None.

    Attributes:
        members: the steps that compute the part.
        cache: the cache.
    """

    def __init__(
        self,
        planned: PartStep,
        steps: Sequence[Step],
        cache: ValueCache,
        outputs: Sequence[Edge],
        reading_gpu: int | None,
    ) -> None:
        super().__init__(planned.nodes)
        self.members, self.cache, self._key = tuple(steps), cache, planned.key + cache.software
        self._results, self._outputs = planned.results, frozenset(outputs)
        self._sources, self._paths = planned.sources, planned.sources
        self._reading: Step | None = None  # reads the files of the paths
        self._computing: Sequence[Step] = self.members
        if planned.contents is not None:
            self._reading, *self._computing = self.members
            self._sources = (planned.contents,)
        self._for_gpu, self._buffers = reading_gpu is not None, BufferPool(pin_for=reading_gpu)
        self.units = tuple([unit for step in steps for unit in step.units])
        #: Processor time in nanoseconds, and number of samples, of what was computed so far.
        self._computed_cost = np.zeros(2)
        self._claims: set[Claim] = set()  # of batches that run

    def leaves(self) -> Iterator[Step]:
        for step in self.members:
            yield from step.leaves()

    def run(self, batch: Batch) -> None:
        begun = spent().processor
        found = self._find(batch) if self._reading is None else self._find_files(batch, self._reading)
        computed, working = [], found.working
        if None in found.entries:
            before = spent().processor
            computed = self._compute_missing(found.batch, found.keys, found.entries)
            working += spent().processor - before
        if found.names:
            self.cache.give_names(found.keys, found.names)
        entries = found.entries
        values = [self._value(batch, number, edge, entries, computed) for number, edge in enumerate(self._results)]
        for edge, value in zip(self._results, values, strict=True):
            if value is None:  # the samples can't be one batch
                for step in self.members:
                    step.run(batch)  # raises that
                return
            batch.keep(edge, value)
        nanoseconds, count = self._computed_cost
        hits = len(entries) - sum([len(positions) for positions, _ in computed])
        if hits:
            taken = spent().processor - begun - working
            self.cache.save(hits * nanoseconds / max(count, 1) - taken * hits / len(entries))

    def _find(self, batch: Batch) -> _Found:
        keys = sample_keys(self._key, _on_cpu(batch, self._sources), self.cache.seed, batch.pool)
        return _Found(batch, keys, self.cache.find(keys, batch.pool))

    def _find_files(self, batch: Batch, reading: Step) -> _Found:
        """Find values by the names of their files. Read only the others, and find them by their contents."""
        files = PathTable.from_samples(_on_cpu(batch, self._paths)[0], SCHEME_OF_FILES.encode())
        names = file_names(self._key, files)
        entries = self.cache.find_named(names)
        unnamed = np.array([sample for sample, entry in enumerate(entries) if entry is None], np.int64)
        found = _Found(SomeSamples(batch, np.arange(batch.size), self._paths), [b""] * batch.size, entries)
        if not len(unnamed):
            return found
        before, part = spent().processor, SomeSamples(batch, unnamed, self._paths)
        try:
            reading.run(part)
        except OperatorError:
            reading.run(found.batch)  # the error names all files that can't be read, also those that were cached
            raise
        (contents,) = _on_cpu(part, self._sources)
        found.working = spent().processor - before
        self._computed_cost[0] += found.working
        samples: list[Array] = [_NOTHING] * batch.size
        found.names = [None] * batch.size
        keys = sample_keys(self._key, [contents], self.cache.seed, batch.pool)
        again = file_names(self._key, files.take(unnamed))
        by_content = self.cache.find(keys, batch.pool)
        for number, sample in enumerate(unnamed.tolist()):
            samples[sample], found.keys[sample] = contents.samples[number], keys[number]
            entries[sample] = by_content[number]
            if again[number] == names[sample]:  # else the file has changed while it was read
                found.names[sample] = names[sample]
        found.batch.outputs[self._sources[0]] = TensorListCPU(samples, contents.layout())
        return found

    def close(self) -> None:
        """Stop using a cache of this step's own. The executor calls this when all batches have ended."""

    def release_claims(self) -> None:
        """Let others compute what running batches compute, which may never end. Any thread may call this."""
        for claim in list(self._claims):
            self.cache.end(claim)

    def _compute_missing(self, batch: Batch, keys: Sequence[bytes], entries: list[Entry | None]) -> list[Computed]:
        """Compute the samples without an entry, or wait until other batches have computed them.

        Return what was computed here, and set the entries of what the cache has room for.
        """
        missing = [sample for sample, entry in enumerate(entries) if entry is None]
        if batch.nested:  # a function waits for it, for which others may wait
            return [self._compute_samples(batch, missing, keys, entries)]
        claim, found = self.cache.claim([keys[sample] for sample in missing])
        own = [sample for sample, holder in zip(missing, found, strict=True) if holder is None]
        others = [(sample, holder) for sample, holder in zip(missing, found, strict=True) if holder is not None]
        computed: list[Computed] = []
        self._claims.add(claim)
        try:
            if own:
                computed.append(self._compute_samples(batch, own, keys, entries))
        except OperatorError:
            self.cache.end(claim)
            if others:  # the error names all samples that fail
                self._compute(SomeSamples(batch, np.array(missing), self._sources))
            raise
        finally:
            self._claims.discard(claim)
            self.cache.end(claim, computed[0][1] if computed else ())
        if others:
            waited = self.cache.wait([keys[sample] for sample, _ in others], [holder for _, holder in others])
            for (sample, _), entry in zip(others, waited, strict=True):
                entries[sample] = entry
            rest = [sample for sample, _ in others if entries[sample] is None]
            if rest:  # the other batch has failed, or had an equal sample
                computed.append(self._compute_samples(batch, rest, keys, entries))
        return computed

    def _compute_samples(
        self, batch: Batch, samples: Sequence[int], keys: Sequence[bytes], entries: list[Entry | None]
    ) -> Computed:
        """Compute samples and store them. Return them, and set the entries of those that the cache has room for."""
        positions = np.array(samples, np.int64)
        part = SomeSamples(batch, positions, self._sources)
        own = [keys[sample] for sample in samples]
        alone = self._results[0] if len(self._results) == 1 and self._results[0] not in self._outputs else None
        placement = _Placement(self.cache, own, alone, self._buffers)
        part.place = placement.place
        try:
            self._compute(part)
        except BaseException:
            placement.release()
            raise
        results = _on_cpu(part, self._results)
        stored = self.cache.store(own, results, batch.pool, placement.reserved)
        if len(own) < len(entries):
            for sample, entry in zip(samples, stored, strict=True):
                entries[sample] = entry
        return positions, placement.protected(results)

    def _compute(self, batch: Batch) -> None:
        begun = spent()
        for step in self._computing:
            measured = batch.costs if len(step.units) == 1 else None  # a chain measures its operators
            with charged(measured, step.nodes[0].index):
                step.run(batch)
        self._computed_cost += spent().minus(begun).processor, batch.size

    def _value(
        self, batch: Batch, number: int, edge: Edge, entries: Sequence[Entry | None], computed: Sequence[Computed]
    ) -> TensorList | None:
        """Return a result for all samples, from the cache and from what was computed.

        None if the samples differ in dtype, number of dimensions or layout.
        """
        found = [(sample, entry.parts[number], entry.layouts[number]) for sample, entry in enumerate(entries) if entry]
        if not found and len(computed) == 1:
            whole: TensorListCPU = computed[0][1][number]
            return whole
        rest = [(positions, contiguous(results[number])) for positions, results in computed]
        kinds = {(part.dtype, len(part.shape), layout) for _, part, layout in found}
        kinds.update([(each.table().dtype, each.table().ndim, each.layout()) for _, each in rest])
        if len(kinds) > 1:
            return None
        dtype, ndim, layout = kinds.pop()
        pointers, shapes = np.empty(batch.size, np.int64), np.empty((batch.size, ndim), np.int64)
        for positions, each in rest:  # of those, some may be in the cache by now
            pointers[positions], shapes[positions] = each.table().pointers, each.table().shapes
        samples = [sample for sample, _, _ in found]
        pointers[samples] = [part.address for _, part, _ in found]
        shapes[samples] = np.array([part.shape for _, part, _ in found], np.int64).reshape(-1, ndim)
        table = Samples.contiguous(pointers, shapes, dtype)
        if edge not in self._outputs and table.nbytes > _SMALL:
            return self._in_place(table, layout, [(sample, part.owner) for sample, part, _ in found], rest)
        result = batch.allocate_samples(edge, shapes, dtype, layout, self._buffers, self._for_gpu)
        begin = int(result.table().pointers[0])
        offsets, sizes = result.table().pointers - begin, result.table().sizes
        nbytes = int(offsets[-1] + sizes[-1])
        if nbytes:
            block = np.ctypeslib.as_array((ctypes.c_ubyte * nbytes).from_address(begin))
            copy_ranges(block, pointers, sizes, offsets, batch.pool)
        return result

    def _in_place(
        self,
        table: Samples,
        layout: str,
        found: Sequence[tuple[int, Any]],
        rest: Sequence[tuple[Int64s, TensorListCPU]],
    ) -> TensorListCPU:
        """Return samples where they are: in the cache, or where they were computed.

        Args:
            table: the samples.
            layout: their layout.
            found: positions of those that the cache found, and the owners of their memory.
            rest: positions of those that were computed, and all of these.
        """
        kept = self.cache.memory_of([owner for _, owner in found if not isinstance(owner, np.ndarray)])
        kept.flags.writeable = False
        blocks, homes = [kept], np.zeros(len(table), np.int64)
        elsewhere = [(sample, owner) for sample, owner in found if isinstance(owner, np.ndarray)]
        if len(found) < len(table):
            known = {sample for sample, _ in found}
            for positions, each in rest:
                computed = zip(positions.tolist(), each.samples, strict=True)
                elsewhere += [(sample, array) for sample, array in computed if sample not in known]
        for sample, array in elsewhere:
            homes[sample] = len(blocks)
            blocks.append(array.reshape(-1).view(np.uint8))
        return TensorListCPU.from_table(table, blocks, homes, layout)


@dataclass
class _Found:
    """The samples of a batch, and the values that the cache has for them.

    Attributes:
        batch: has what the part reads, for the samples without a value.
        keys: the keys of these samples.
        entries: the values; None for samples without one.
        names: names for files, once their values are stored; None for other samples.
        working: nanoseconds of processor time in which files were read.
    """

    batch: Batch
    keys: list[bytes]
    entries: list[Entry | None]
    names: list[bytes | None] = field(default_factory=list)
    working: int = 0


class _Placement:
    """Memory of the cache, for samples that an operator computes.

    Args:
        cache: the cache.
        keys: keys of the samples.
        edge: the output of the operator; None for no memory.
        buffers: memory for the samples that the cache has no room for.

    Attributes:
        reserved: memory of each sample; None as long as there is none.
    """

    def __init__(self, cache: ValueCache, keys: Sequence[bytes], edge: Edge | None, buffers: BufferPool) -> None:
        self._cache, self._keys, self._edge, self._buffers = cache, keys, edge, buffers
        self.reserved: list[list[Block] | None] | None = None
        self._placed: TensorListCPU | None = None
        self._blocks: list[Array] = []
        self._homes: Int64s | None = None

    def place(self, edge: Edge, shapes: Int64s, dtype: np.dtype[Any], layout: str) -> TensorListCPU | None:
        """Return memory for the samples of an edge; None if the cache keeps other edges, or copies of small samples."""
        sizes = (shapes.prod(axis=1) * dtype.itemsize).tolist()
        if edge != self._edge or self.reserved is not None or sum(sizes) <= _SMALL:
            return None
        self.reserved = self._cache.reserve(self._keys, [[nbytes] for nbytes in sizes])
        owners = [reserved[0] for reserved in self.reserved if reserved is not None]
        if not owners:
            return None
        self._blocks = [self._cache.memory_of(owners)]
        first = self._blocks[0].ctypes.data
        pointers: Any = [first + block.offset for block in owners]
        if len(owners) < len(shapes):
            refused = np.array([reserved is None for reserved in self.reserved])
            table, nbytes = Samples.packed(0, shapes[refused], dtype)
            other, _ = self._buffers.memory(nbytes)
            self._blocks.append(other)
            self._homes, found = refused.astype(np.int64), pointers
            pointers = np.empty(len(shapes), np.int64)
            pointers[~refused], pointers[refused] = found, table.pointers + other.ctypes.data
        table = Samples.contiguous(np.array(pointers, np.int64), shapes, dtype)
        self._placed = TensorListCPU.from_table(table, self._blocks, self._homes, layout)
        return self._placed

    def protected(self, results: list[TensorListCPU]) -> list[TensorListCPU]:
        """Return the results of a part, read-only if they are in this memory."""
        placed = self._placed
        if placed is None or results[0] is not placed:  # the operator has used other memory
            return results
        for block in self._blocks:
            block.flags.writeable = False
        return [TensorListCPU.from_table(placed.table(), self._blocks, self._homes, placed.layout())]

    def release(self) -> None:
        """Give the memory back, because the operator failed."""
        if self.reserved is not None:
            self._cache.release(self.reserved)


def _on_cpu(batch: Batch, edges: Sequence[Edge]) -> list[TensorListCPU]:
    values: list[Any] = [batch.outputs[edge] for edge in edges]  # parts read and compute nothing else
    return values


class SomeSamples(BatchView):
    """Some samples of a batch, or all, as a batch whose errors name their positions in the full one."""

    def __init__(self, batch: Batch, positions: Int64s, sources: Sequence[Edge]) -> None:
        super().__init__(batch, len(positions))
        self.positions = positions if batch.positions is None else batch.positions[positions]
        self.branch_batches, self.outputs = {}, Outputs()
        if len(positions) == batch.size:
            self.outputs.update({edge: batch.outputs[edge] for edge in sources})
            return
        self.allocate = _allocate
        self.outputs.update({edge: take_samples(batch.outputs[edge], positions) for edge in sources})


def _allocate(edge: Edge, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[Array, Any]:
    return np.empty(shape, dtype), None
