"""Batches of branches: the samples of a batch that take a branch of the graph, as a batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from msgspec.structs import replace

from dali_proxy.pipeline._cached_property import cached_property
from dali_proxy.pipeline._graph.graph import BranchPath, Edge, GraphNode
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._operator_api.batch import Batch, BatchView
from dali_proxy.pipeline._operator_api.joined_batches import JoinedBatch
from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU
from dali_proxy.pipeline.tensors.gpu import TensorListGPU

# Samples of dense batches up to this size, in bytes, are selected by a copy, so that the result stays dense.
_SMALL = 1 << 14


class _BranchBatch(BatchView):
    """The samples of a batch at some positions. They share the memory and random numbers of the full batch."""

    def __init__(self, full_batch: Batch, positions: Array) -> None:
        super().__init__(full_batch, len(positions))
        self.request = replace(full_batch.request, branch=(full_batch.size, positions))
        self._full_batch, self.positions = full_batch, positions

    @cached_property
    def indices(self) -> Array:
        assert self.positions is not None
        indices = np.full(self.full_batch.size, -1)
        indices[self.positions] = np.arange(self.size)
        return indices

    @property
    def values(self) -> Mapping[Edge, TensorList]:
        return _SelectedValues(self)

    def pixels(self, edge: Edge, *, computed: bool = False, elements: bool = False) -> PixelExpression | None:
        pixels = self.outputs.pixels(edge, computed=computed, elements=elements)
        indices = self.indices_in(edge)
        return pixels if pixels is None or indices is None else pixels.take(indices)

    def indices_in(self, edge: Edge) -> Array | None:
        branch = self.branches.get(edge)
        source = self._full_batch if branch is None else branch_batch(self._full_batch, branch)
        assert source is not None  # an edge is computed for all samples that read it
        if source.size == self.size:  # one branch contains the other, so the samples are the same
            return None
        assert self.positions is not None
        return self.positions if source.indices is None else source.indices[self.positions]

    @property
    def full_batch(self) -> Batch:
        return self._full_batch


class _MergedBranch(JoinedBatch, _BranchBatch):
    """The samples of several batches, which run as one, that take a branch."""

    def __init__(self, full_batch: Batch, positions: Array, branch: BranchPath) -> None:
        _BranchBatch.__init__(self, full_batch, positions)
        self._branch = branch

    def parts(self, node: GraphNode) -> Iterable[tuple[GraphNode, Batch]]:
        found = [branch_batch(member, self._branch) for member in self._full_batch.members]
        return [(node, each) for each in found if each is not None]


class _SelectedValues(Mapping[Edge, TensorList]):
    """The inputs of operators of a branch: the branch's samples of each output."""

    def __init__(self, batch: _BranchBatch) -> None:
        self._batch = batch

    def __getitem__(self, edge: Edge) -> TensorList:
        value, indices = self._batch.outputs[edge], self._batch.indices_in(edge)
        return value if indices is None else take_samples(value, indices)

    def __iter__(self) -> Iterator[Edge]:
        return iter(self._batch.outputs)

    def __len__(self) -> int:
        return len(self._batch.outputs)


def branch_batch(batch: Batch, branch: BranchPath) -> Batch | None:
    """Return the batch of a branch, given that of any branch of it; None if no sample takes the branch.

    The empty path has all samples.
    """
    full = batch.full_batch
    if not branch:
        return full
    if branch not in full.branch_batches:
        outer = branch_batch(full, branch[:-1])
        full.branch_batches[branch] = None if outer is None else _choose(outer, branch)
    selected = full.branch_batches[branch]
    if selected is not None:
        selected.stream = full.stream  # a batch gets its stream when it reaches the GPU
    return selected


def aligned_samples(batch: Batch, edge: Edge) -> list[Any]:
    """Return the samples of an edge in any branch, one per sample of a batch; None where the edge has none."""
    source = branch_batch(batch, batch.branches.get(edge, ()))
    if edge not in batch.outputs or source is None:
        return [None] * batch.size
    value = batch.outputs[edge]
    samples = samples_of_list(value)
    indices = np.arange(batch.full_batch.size) if source.indices is None else source.indices
    if batch.positions is not None:
        indices = indices[batch.positions]
    return [samples[index] if index >= 0 else None for index in indices.tolist()]


def _choose(outer: Batch, branch: BranchPath) -> Batch | None:
    edge, value = branch[-1]
    chosen = outer.chosen.get(edge)
    if chosen is None:
        chosen = outer.chosen[edge] = _by_value(_conditions(outer.values[edge]))
    indices = chosen.get(value)
    if indices is None:
        return None
    positions, full = indices if outer.positions is None else outer.positions[indices], outer.full_batch
    return _MergedBranch(full, positions, branch) if full.members else _BranchBatch(full, positions)


def _by_value(numbers: Array) -> dict[int, Array]:
    """Return the positions of each number, ascending."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    ends = [*(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1).tolist(), len(order)]
    return {int(ordered[begin]): order[begin:end] for begin, end in zip([0, *ends], ends, strict=False)}


def _conditions(conditions: TensorList) -> Array:
    """Return the numbers of a batch that selects branches, (N,) int64."""
    if not isinstance(conditions, TensorListCPU) or (conditions.table().shapes.prod(axis=1) != 1).any():
        raise ArgumentValueError("the condition of a branch must be one number per sample")
    dense = conditions.dense
    chosen = np.concatenate([np.ravel(each) for each in conditions.samples]) if dense is None else dense.reshape(-1)
    return chosen.astype(np.int64)


def samples_of_list(value: TensorList) -> list[Any]:
    if value.ndim == 0 and isinstance(value.dense, np.ndarray):  # indexing would return scalars, not arrays
        return [value.dense[sample, ...] for sample in range(len(value))]
    return list(value.samples)


def take_samples(value: TensorList, indices: Array) -> TensorList:
    """Return a selection of samples: views, or a copy of small data."""
    if isinstance(value, TensorListCPU) and value.dense is not None and value.nbytes <= _SMALL:
        return TensorListCPU.from_dense(value.dense[indices], value.layout())
    if isinstance(value, TensorListGPU):
        return TensorListGPU.from_table(value.table().take(indices), value, value.device_id(), value.layout())
    samples = samples_of_list(value)
    return type(value)([samples[index] for index in indices.tolist()], value.layout())
