"""Random numbers of several operators, drawn by one call: generators take longer to create than the numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline._graph.graph import Edge, GraphNode
from pipeline._imaging.native import compiled
from pipeline._operator_api.batch import Batch
from pipeline._rng import Distribution, batch_counter, generator_key
from pipeline.tensors.cpu import Array, TensorListCPU

__all__ = ["JointDraws", "NumberDraw"]

#: struct Draw of headers/draws.h.
_DRAW = np.dtype(
    [
        *[("key", "u8", (2,)), ("low", "f8"), ("range", "f8"), ("limit", "f8"), ("count", "i8")],
        *[("kind", "i8"), ("first", "i8"), ("values", "i8")],
    ]
)


@dataclass(frozen=True, eq=False)
class NumberDraw:
    """The numbers that an operator with constant arguments draws.

    Attributes:
        distribution: distribution of all numbers.
        shape: shape of each sample.
        values: values of a list, or of the two sides of a coin. Its dtype, of 4 bytes, is that of the numbers; float32
            for other distributions.
    """

    distribution: Distribution
    shape: tuple[int, ...]
    values: Array

    @property
    def count(self) -> int:
        """Number of numbers for each sample."""
        return math.prod(self.shape)


class JointDraws:
    """The draws of several operators. It draws the same numbers as each operator alone.

    Args:
        draws: the operators, none of them in a branch, and their numbers.
        seed: seed of the pipeline.
    """

    def __init__(self, draws: Sequence[tuple[GraphNode, NumberDraw]], seed: int) -> None:
        self._indices = [node.index for node, _ in draws]
        self._count = sum(draw.count for _, draw in draws)
        self._rows = np.zeros(len(draws), _DRAW)
        #: Of each output: edge, its first number and the number after the last for one sample, shape, and dtype.
        self._outputs: list[tuple[Edge, int, int, tuple[int, ...], np.dtype[Any]]] = []
        begin = listed = 0
        for row, (node, draw) in zip(self._rows, draws, strict=True):
            row["key"] = generator_key(*_seed_and_stream(node, seed))
            own = draw.distribution
            (row["low"],), (row["range"],), (row["limit"],) = own.low, own.range, own.limit
            row["count"], row["kind"], row["first"], row["values"] = draw.count, own.kind, listed, len(draw.values)
            self._outputs.append((Edge(node.index), begin, begin + draw.count, draw.shape, draw.values.dtype))
            begin, listed = begin + draw.count, listed + len(draw.values)
        self._table = np.concatenate([draw.values.view(np.uint32) for _, draw in draws])

    def run(self, batch: Batch) -> Sequence[int]:
        """Draw the numbers of a batch and keep them as outputs; return the indices of the operators that are done."""
        if compiled is None or batch.request.random_states:
            return ()
        size = batch.size
        try:
            numbers = np.empty(size * self._count, np.uint32)
        except (MemoryError, ValueError):  # the operator that needs too much memory reports it
            return ()
        compiled.draw_numbers(self._rows, self._table, batch_counter(batch.request.key), size, numbers)
        views = {dtype: numbers.view(dtype) for *_, dtype in self._outputs}
        for edge, begin, end, shape, dtype in self._outputs:
            drawn = views[dtype][begin * size : end * size]
            batch.keep(edge, TensorListCPU.from_dense(drawn.reshape(size, *shape) if shape else drawn))
        return self._indices


def _seed_and_stream(node: GraphNode, seed: int) -> tuple[int, int]:
    return (seed, node.random_stream) if node.own_seed is None else (node.own_seed, 0)
