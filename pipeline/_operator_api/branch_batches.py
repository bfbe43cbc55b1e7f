"""Parts of batches: the samples that are in a branch of the graph, which run as a batch of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from pipeline._graph.graph import BranchPath, Edge
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.request import TensorList
from pipeline.errors import ArgumentValueError
from pipeline.tensors.cpu import Array, TensorListCPU

__all__ = ["part_of", "scattered"]

# Dense batches up to this size, in bytes, are copied to take samples of them: they stay dense.
_SMALL = 1 << 14


class _Part(Batch):
    """Some samples of a batch, as a batch: memory and random numbers are those of the whole.

    Args:
        whole: the batch.
        positions: of the samples in the whole batch.
    """

    def __init__(self, whole: Batch, positions: Array) -> None:
        super().__init__(whole.request, whole.seed, whole.pool, whole.allocate, whole.reads, whole.branches)
        self._whole = whole
        self.size = len(positions)
        self.made = whole.made
        self.positions = positions
        self.places = np.full(whole.size, -1)
        self.places[positions] = np.arange(len(positions))
        self.number, self.trace, self.memory = whole.number, whole.trace, whole.memory
        self.keep_alive = whole.keep_alive
        self.parts = whole.parts

    @property
    def values(self) -> Mapping[Edge, TensorList]:
        return _Narrowed(self)

    @property
    def whole(self) -> Batch:
        return self._whole


class _Narrowed(Mapping[Edge, TensorList]):
    """What a part reads of the values of a batch: those samples of each that it has."""

    def __init__(self, part: _Part) -> None:
        self._part = part

    def __getitem__(self, edge: Edge) -> TensorList:
        part = self._part
        value = part.made[edge]
        source = part_of(part.whole, part.branches.get(edge, ()))
        assert source is not None  # what is read has been made for all samples that read it
        if source.size == part.size:  # one lies within the other
            return value
        assert part.positions is not None
        return _take(value, part.positions if source.places is None else source.places[part.positions])

    def __iter__(self) -> Iterator[Edge]:
        return iter(self._part.made)

    def __len__(self) -> int:
        return len(self._part.made)


def part_of(batch: Batch, branch: BranchPath) -> Batch | None:
    """Return the samples of a batch that are in a branch, as a batch; None when there is none.

    Args:
        batch: the whole batch, or a part of it.
        branch: which branch of the graph; the empty one has all samples.
    """
    whole = batch.whole
    if not branch:
        return whole
    if branch not in whole.parts:
        outer = part_of(whole, branch[:-1])
        whole.parts[branch] = None if outer is None else _choose(outer, *branch[-1])
    part = whole.parts[branch]
    if part is not None:
        part.stream = whole.stream  # which a batch gets when it comes to the GPU
    return part


def scattered(batch: Batch, edge: Edge) -> list[Any]:
    """Return the samples of an edge at their places in a batch or a part of one; None where they weren't made."""
    value = batch.made.get(edge)
    source = part_of(batch, batch.branches.get(edge, ()))
    if value is None or source is None:
        return [None] * batch.size
    samples = _samples(value)
    places = np.arange(batch.whole.size) if source.places is None else source.places
    if batch.positions is not None:
        places = places[batch.positions]
    return [samples[place] if place >= 0 else None for place in places.tolist()]


def _choose(outer: Batch, edge: Edge, value: int) -> Batch | None:
    numbers = outer.values[edge]
    if not isinstance(numbers, TensorListCPU) or any(np.prod(shape) != 1 for shape in numbers.shape()):
        raise ArgumentValueError("the condition of a branch must be one number per sample")
    chosen = np.array([sample.item() for sample in _samples(numbers)])
    places = np.flatnonzero(chosen.astype(np.int64) == value)
    if not len(places):
        return None
    return _Part(outer.whole, places if outer.positions is None else outer.positions[places])


def _samples(value: TensorList) -> list[Any]:
    if value.ndim == 0 and isinstance(value.dense, np.ndarray):  # indexing would give scalars, not arrays
        return [value.dense[sample, ...] for sample in range(len(value))]
    return list(value.samples)


def _take(value: TensorList, places: Array) -> TensorList:
    """Return some samples: views, or a copy of what is small."""
    if isinstance(value, TensorListCPU) and value.dense is not None and value.nbytes <= _SMALL:
        return TensorListCPU(value.dense[places], value.layout())
    samples = _samples(value)
    return type(value)([samples[place] for place in places.tolist()], value.layout())
