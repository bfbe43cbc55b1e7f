"""How much memory the outputs of operators have: for `Pipeline.executor_statistics`."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline._graph.graph import Edge, Graph
from pipeline._operator_api.request import TensorList
from pipeline.tensors.cpu import Array

__all__ = ["MemoryStatistics"]


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
    """The largest sizes of all outputs of a graph. Any thread may add to it.

    Args:
        graph: the graph.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._lock = threading.Lock()
        self._outputs = {
            Edge(node.index, output): _Largest() for node in graph.nodes for output in range(node.output_count)
        }

    def add_batch(self, edge: Edge, value: TensorList) -> None:
        """Count a batch that an operator made."""
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
        """Count samples that were made and dropped within a chain of operators."""
        sizes = [sample.nbytes for sample in samples]
        reserved = [max(sample.nbytes, _memory_behind(sample)) for sample in samples]
        with self._lock:
            self._outputs[edge].add(sizes, reserved)

    def by_operator(self) -> dict[str, dict[str, list[int]]]:
        """Return the four lists of sizes by the names of the operators, a size for each output."""
        with self._lock:
            made = {}
            for node in self._graph.nodes:
                outputs = [self._outputs[Edge(node.index, output)] for output in range(node.output_count)]
                made[node.name] = {
                    "real_memory_size": [output.batch for output in outputs],
                    "max_real_memory_size": [output.sample for output in outputs],
                    "reserved_memory_size": [output.reserved_batch for output in outputs],
                    "max_reserved_memory_size": [output.reserved_sample for output in outputs],
                }
            return made


def _memory_behind(array: Any) -> int:
    """Return the size of the allocation that an array lies in."""
    if not isinstance(array, np.ndarray):  # CuPy's
        return int(array.data.mem.size)
    while isinstance(array.base, np.ndarray):
        array = array.base
    return int(array.nbytes)
