"""Memory of the outputs of operators, for `Pipeline.executor_statistics`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from dali_proxy.pipeline._concurrency.locks import Level, new_lock
from dali_proxy.pipeline._graph.graph import Edge, Graph
from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline.tensors.cpu import Array


class SizeRecorder(Protocol):
    """Records the sizes of the outputs of a batch."""

    def add_batch(self, edge: Edge, value: TensorList) -> None:
        """Add the sizes of an output."""

    def add_samples(self, edge: Edge, samples: Sequence[Array]) -> None:
        """Add the sizes of samples that a chain of operators computed and dropped."""


@dataclass
class _Largest:
    """The largest sizes of one output so far, in bytes."""

    batch: int = 0
    sample: int = 0
    reserved_batch: int = 0
    reserved_sample: int = 0

    def add(self, sizes: Sequence[int], reserved: Sequence[int]) -> None:
        self.batch = max(self.batch, sum(sizes))
        self.sample = max(self.sample, *sizes)
        self.reserved_batch = max(self.reserved_batch, sum(reserved))
        self.reserved_sample = max(self.reserved_sample, *reserved)


class MemoryStatistics:
    """The largest sizes of all outputs of a graph. Any thread may add sizes."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._lock = new_lock(Level.LEAF, "memory statistics")
        self._outputs = {
            Edge(node.index, output): _Largest() for node in graph.nodes for output in range(node.output_count)
        }

    def add_batch(self, edge: Edge, value: TensorList) -> None:
        """Add the sizes of an output."""
        if value.dense is not None:
            count = len(value)
            sizes = [value.nbytes // count] * count
            reserved = [max(value.nbytes, _memory_behind(value.dense)) // count] * count
        else:
            sizes = [int(sample.nbytes) for sample in value.samples]
            reserved = [max(int(sample.nbytes), _memory_behind(sample)) for sample in value.samples]
        with self._lock:
            self._outputs[edge].add(sizes, reserved)

    def add_samples(self, edge: Edge, samples: Sequence[Array]) -> None:
        """Add the sizes of samples that a chain of operators computed and dropped."""
        sizes = [sample.nbytes for sample in samples]
        reserved = [max(sample.nbytes, _memory_behind(sample)) for sample in samples]
        with self._lock:
            self._outputs[edge].add(sizes, reserved)

    def by_operator(self) -> dict[str, dict[str, list[int]]]:
        """Return four lists of sizes for each operator by its name, with one size per output."""
        with self._lock:
            statistics = {}
            for node in self._graph.nodes:
                outputs = [self._outputs[Edge(node.index, output)] for output in range(node.output_count)]
                statistics[node.name] = {
                    "real_memory_size": [output.batch for output in outputs],
                    "max_real_memory_size": [output.sample for output in outputs],
                    "reserved_memory_size": [output.reserved_batch for output in outputs],
                    "max_reserved_memory_size": [output.reserved_sample for output in outputs],
                }
            return statistics


def _memory_behind(array: Any) -> int:
    """Return the size of the allocation that an array lies in."""
    if not isinstance(array, np.ndarray):  # a CuPy array
        return int(array.data.mem.size)
    while isinstance(array.base, np.ndarray):
        array = array.base
    return int(array.nbytes)
