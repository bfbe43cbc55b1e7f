"""Run a part of a graph whose results a cache may have: only for the samples that it doesn't have."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._bulk.buffer_pool import BufferPool
from dali_proxy.pipeline._bulk.gather import copy_ranges
from dali_proxy.pipeline._cache.keys import sample_keys
from dali_proxy.pipeline._cache.memory_tier import Entry
from dali_proxy.pipeline._cache.value_cache import ValueCache, contiguous
from dali_proxy.pipeline._compiler.plan import PartStep
from dali_proxy.pipeline._compiler.steps.step import Step
from dali_proxy.pipeline._concurrency.cost import charged, spent
from dali_proxy.pipeline._graph.graph import Edge
from dali_proxy.pipeline._operator_api.batch import Batch, BatchView
from dali_proxy.pipeline._operator_api.branch_batches import take_samples
from dali_proxy.pipeline._operator_api.outputs import Outputs
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU


class CachedStep(Step):
    """Takes the results of a part from a cache. Runs the part for the samples that the cache doesn't have.

    The results are copies: operators and users may keep them, and write to them.

    Args:
        planned: the part.
        steps: the steps that compute it.
        cache: the cache.
        reading_gpu: GPU that reads the results, or None.

    Attributes:
        members: the steps that compute the part.
    """

    def __init__(self, planned: PartStep, steps: Sequence[Step], cache: ValueCache, reading_gpu: int | None) -> None:
        super().__init__(planned.nodes)
        self.members, self._cache, self._key = tuple(steps), cache, planned.key + cache.software
        self._sources, self._results = planned.sources, planned.results
        self._for_gpu, self._buffers = reading_gpu is not None, BufferPool(pin_for=reading_gpu)
        self.units = tuple([unit for step in steps for unit in step.units])
        #: Processor time in nanoseconds, and number of samples, of what was computed so far.
        self._computed = np.zeros(2)

    def leaves(self) -> Iterator[Step]:
        for step in self.members:
            yield from step.leaves()

    def run(self, batch: Batch) -> None:
        begun = spent()
        sources = _on_cpu(batch, self._sources)
        keys = sample_keys(self._key, sources, self._cache.seed, batch.pool)
        entries = self._cache.find(keys, batch.pool)
        missing = np.array([sample for sample, entry in enumerate(entries) if entry is None], np.int64)
        if len(missing) == len(entries):
            self._compute(batch)
            self._cache.store(keys, _on_cpu(batch, self._results), batch.pool)
            return
        computed: list[TensorListCPU] = []
        after = before = spent()
        if len(missing):
            part = _Samples(batch, missing, self._sources)
            self._compute(part)
            after = spent()
            computed = _on_cpu(part, self._results)
            self._cache.store([keys[sample] for sample in missing.tolist()], computed, batch.pool)
        values = [
            self._joined(batch, number, edge, entries, missing, computed) for number, edge in enumerate(self._results)
        ]
        for edge, value in zip(self._results, values, strict=True):
            if value is None:  # the samples can't be one batch
                self._compute(batch)  # raises that
                return
            batch.keep(edge, value)
        nanoseconds, count = self._computed
        hits = len(entries) - len(missing)
        taken = spent().minus(after).processor + before.minus(begun).processor
        self._cache.save(hits * nanoseconds / max(count, 1) - taken * hits / len(entries))

    def _compute(self, batch: Batch) -> None:
        begun = spent()
        for step in self.members:
            measured = batch.costs if len(step.units) == 1 else None  # a chain measures its operators
            with charged(measured, step.nodes[0].index):
                step.run(batch)
        self._computed += spent().minus(begun).processor, batch.size

    def _joined(
        self,
        batch: Batch,
        number: int,
        edge: Edge,
        entries: Sequence[Entry | None],
        missing: npt.NDArray[np.int64],
        computed: Sequence[TensorListCPU],
    ) -> TensorListCPU | None:
        """Return a result for all samples, copied from the cache and from what was computed.

        None if the samples differ in dtype, number of dimensions or layout.
        """
        found = [(sample, entry.parts[number], entry.layouts[number]) for sample, entry in enumerate(entries) if entry]
        dtype, ndim, layout = found[0][1].dtype, len(found[0][1].shape), found[0][2]
        if any(part.dtype != dtype or len(part.shape) != ndim or own != layout for _, part, own in found):
            return None
        pointers, shapes = np.empty(batch.size, np.int64), np.empty((batch.size, ndim), np.int64)
        samples = [sample for sample, _, _ in found]
        pointers[samples] = [part.address for _, part, _ in found]
        shapes[samples] = [part.shape for _, part, _ in found]
        owners: list[Any] = [entries]
        if len(missing):
            rest = contiguous(computed[number])
            table = rest.table()
            if table.dtype != dtype or table.ndim != ndim or rest.layout() != layout:
                return None
            pointers[missing], shapes[missing] = table.pointers, table.shapes
            owners.append(rest)
        result = batch.allocate_samples(edge, shapes, dtype, layout, self._buffers, self._for_gpu)
        begin = int(result.table().pointers[0])
        offsets, sizes = result.table().pointers - begin, result.table().sizes
        nbytes = int(offsets[-1] + sizes[-1])
        if nbytes:
            block = np.ctypeslib.as_array((ctypes.c_ubyte * nbytes).from_address(begin))
            copy_ranges(block, pointers, sizes, offsets, batch.pool, owners)
        return result


def _on_cpu(batch: Batch, edges: Sequence[Edge]) -> list[TensorListCPU]:
    values: list[Any] = [batch.outputs[edge] for edge in edges]  # parts read and compute nothing else
    return values


class _Samples(BatchView):
    """Some samples of a batch, as a batch whose errors name their positions in the full one.

    Args:
        batch: the full batch.
        positions: positions of the samples in it.
        sources: the edges that are read.
    """

    def __init__(self, batch: Batch, positions: npt.NDArray[np.int64], sources: Sequence[Edge]) -> None:
        super().__init__(batch, len(positions))
        self.positions, self.branch_batches = positions, {}
        self.outputs, self.allocate = Outputs(), _allocate
        self.outputs.update({edge: take_samples(batch.outputs[edge], positions) for edge in sources})


def _allocate(edge: Edge, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[Array, Any]:
    return np.empty(shape, dtype), None
