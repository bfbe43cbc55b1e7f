"""Sizes of the values that a cache would hold, measured while there is none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dali_proxy.pipeline._cache.memory_tier import OVERHEAD
from dali_proxy.pipeline._concurrency.locks import Level, new_lock
from dali_proxy.pipeline._graph.graph import Edge
from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline.tensors.cpu import Array

_MEASURED = 64


class ValueSizes:
    """Adds up the sizes of some outputs of a graph. Any thread may add sizes.

    Args:
        edges: the outputs, which a cache would hold.

    Example:
        >>> import numpy as np
        >>> from dali_proxy.pipeline.tensors.cpu import TensorListCPU
        >>> sizes = ValueSizes([Edge(0)])
        >>> sizes.add_batch(Edge(0), TensorListCPU([np.zeros(1000), np.zeros(2000)]))
        >>> sizes.mean > 1500 * 8
        True
    """

    def __init__(self, edges: Iterable[Edge]) -> None:
        self._sums = {edge: [0, 0] for edge in edges}  # bytes, samples
        self._lock = new_lock(Level.LEAF, "value sizes")

    def measures(self, number: int) -> bool:
        """Return whether to measure the batch with a number: some of the first ones, and one of many later ones."""
        return bool(self._sums) and (number.bit_count() < 2 or number % _MEASURED == 0)

    @property
    def mean(self) -> float:
        """Mean number of bytes that a cache needs for a sample; 0 if it isn't known."""
        with self._lock:
            known = [nbytes / samples for nbytes, samples in self._sums.values() if samples]
        return sum(known) + OVERHEAD if known else 0.0

    def add_batch(self, edge: Edge, value: TensorList) -> None:
        """Add the sizes of an output."""
        if edge in self._sums:
            self._add(edge, value.nbytes, len(value))

    def add_samples(self, edge: Edge, samples: Sequence[Array]) -> None:
        """Add the sizes of samples that a chain of operators computed and dropped."""
        if edge in self._sums:
            self._add(edge, sum([sample.nbytes for sample in samples]), len(samples))

    def _add(self, edge: Edge, nbytes: int, samples: int) -> None:
        with self._lock:
            sums = self._sums[edge]
            sums[0] += nbytes
            sums[1] += samples
