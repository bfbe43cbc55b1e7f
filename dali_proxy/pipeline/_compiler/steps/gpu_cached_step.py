"""Run a decoder on the GPU only for the samples that the GPU's memory doesn't have."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np

from dali_proxy.pipeline._cache.gpu_cache import GpuCache, copy_samples, wait_for
from dali_proxy.pipeline._cache.memory_tier import Entry
from dali_proxy.pipeline._compiler.plan import PartStep
from dali_proxy.pipeline._compiler.steps.cached_step import CachedStep, Computed, SomeSamples
from dali_proxy.pipeline._compiler.steps.step import Step
from dali_proxy.pipeline._cuda.context import KernelContext
from dali_proxy.pipeline._graph.graph import Edge
from dali_proxy.pipeline._kernels.samples import Samples, contiguous_strides
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.error_context import error_context
from dali_proxy.pipeline._operator_api.gpu_operator import allocate
from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline.tensors.gpu import TensorListGPU

_log = logging.getLogger("dali_proxy")


class GpuCachedStep(CachedStep):
    """Takes the results of a decoder from a cache in the GPU's memory.

    All work is on the stream of the batch. Results are copies: what the cache gives up while a batch is in flight stays
    allocated until the batch's work is done.
    """

    def __init__(self, planned: PartStep, steps: Sequence[Step], cache: GpuCache, kernels: KernelContext) -> None:
        super().__init__(planned, steps, cache, (), None)
        self._on_gpu, self._kernels = cache, kernels
        arguments = planned.nodes[0].arguments
        self._at_once, self._debug = arguments.get("cache_batch_copy") is not False, arguments.get("cache_debug")

    def close(self) -> None:
        if self._debug:
            found = {name.removeprefix("cache_"): value for name, value in self._on_gpu.report().items()}
            _log.warning("the cache of %s on GPU %d: %s", self.nodes[0].display, self._on_gpu.device_id, found)
        self._on_gpu.close()

    def _compute_samples(
        self, batch: Batch, samples: Sequence[int], keys: Sequence[bytes], entries: list[Entry | None]
    ) -> Computed:
        """Compute samples and store them. Return them, with the event after which other streams may read them."""
        positions = np.array(samples, np.int64)
        part = SomeSamples(batch, positions, self._sources)
        self._compute(part)
        results = [copy(each) for each in _on_gpu(part, self._results)]
        if part.is_repeatable:
            with error_context(self.nodes[0], part):
                own = [keys[sample] for sample in samples]
                event = self._on_gpu.store_on_gpu(own, results, self._kernels, batch.stream, batch.keep_alive)
            for each in results:
                each.ready = event
        return positions, results

    def _value(
        self, batch: Batch, number: int, edge: Edge, entries: Sequence[Entry | None], computed: Sequence[Computed]
    ) -> TensorList | None:
        found = [(sample, entry.parts[number], entry.layouts[number]) for sample, entry in enumerate(entries) if entry]
        results: list[tuple[Any, TensorListGPU]] = [(positions, each[number]) for positions, each in computed]
        if not found and len(results) == 1:
            whole = copy(results[0][1])
            whole.ready = None  # operators of this batch read it on the same stream
            return whole
        kinds = {(part.dtype, len(part.shape), layout) for _, part, layout in found}
        kinds.update([(each.table().dtype, each.table().ndim, each.layout()) for _, each in results])
        if len(kinds) > 1:
            return None
        dtype, ndim, layout = kinds.pop()
        samples, parts = [sample for sample, _, _ in found], [part for _, part, _ in found]
        pointers = np.empty(batch.size, np.int64)
        shapes, strides = np.empty((batch.size, ndim), np.int64), np.empty((batch.size, ndim), np.int64)
        pointers[samples] = [part.address for part in parts]
        shapes[samples] = np.array([part.shape for part in parts], np.int64).reshape(-1, ndim)
        strides[samples] = contiguous_strides(shapes[samples], dtype.itemsize)
        for positions, each in results:
            table = each.table()
            pointers[positions], shapes[positions], strides[positions] = table.pointers, table.shapes, table.strides
        source = Samples(pointers, shapes, strides, dtype)
        batch.keep_alive += [parts, results]
        with error_context(self.nodes[0], batch):
            wait_for(parts, batch.stream)
            output, target = allocate(shapes, dtype, layout)
            every = np.arange(batch.size)
            for rows in (every,) if self._at_once else every[:, np.newaxis]:
                copy_samples(source.take(rows), target.take(rows), self._kernels, batch.stream)
        return output


def _on_gpu(batch: Batch, edges: Sequence[Edge]) -> list[TensorListGPU]:
    values: list[Any] = [batch.outputs[edge] for edge in edges]
    return values
