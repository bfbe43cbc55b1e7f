"""Merges the outputs of branches: for each sample, the output of the branch that it took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from dali_proxy.pipeline._declaration import REQUIRED, Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import Edge
from dali_proxy.pipeline._kernels import Samples
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.branch_batches import branch_batch
from dali_proxy.pipeline._operator_api.gpu_operator import GpuOperator, allocate
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator
from dali_proxy.pipeline._operator_api.output_specs import describe
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array
from dali_proxy.pipeline.tensors.gpu import TensorListGPU

MERGE = declare_operator(
    name="merge",
    doc="Returns for each sample the input of the branch that it took.",
    inputs=(Input("branch", "Output of a branch."),),
    arguments=(Argument("selector", Kind.INT, "Index of the input.", REQUIRED, per_sample=True),),
    devices=("cpu", "gpu"),
    variadic=True,
    merges=True,
    hidden=True,
)


def _selected(batch: Batch, node: Any) -> Array:
    chosen = batch.arguments(node).scalars("selector", np.int64)
    wrong = np.flatnonzero((chosen < 0) | (chosen >= len(node.inputs)))
    if len(wrong):
        raise ArgumentValueError(f"branch {chosen[wrong[0]]} is chosen, but there are {len(node.inputs)} branches")
    return chosen


def _dimensions(spec: OutputSpec) -> int | None:
    known = spec.shape if spec.shape is not None else spec.extents
    return None if known is None else len(known)


def common_property(what: str, values: Sequence[Any]) -> Any:
    """Return the value that all branches have, or None without branches.

    Raises:
        ArgumentValueError: the branches differ.
    """
    distinct = list(dict.fromkeys(values))
    if len(distinct) > 1:
        shown = " and ".join(f'"{value}"' if what == "layouts" else str(value) for value in distinct)
        raise ArgumentValueError(
            "Divergent data found in different branches of conditional operation. All paths in conditional operation "
            "are merged into one batch which must have consistent type, number of dimensions, layout and other "
            f"metadata. Found distinct {what}: {shown}."
        )
    return distinct[0] if distinct else None


@dataclass(frozen=True)
class _State:
    selected: list[int]
    dtype: np.dtype[Any] | None
    dimensions: set[int] = field(default_factory=set)  # of the samples so far


@implements(MERGE, "cpu")
class MergeCpu(SampleOperator[_State]):
    """Passes samples on; copies them if the memory of the output is already allocated."""

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[_State, Sequence[OutputSpec]]:
        selected: list[int] = _selected(batch, self.node).tolist()
        specs = [inputs[chosen] for chosen in sorted(set(selected))]
        layout = common_property("layouts", [spec.layout for spec in specs]) or ""
        dtypes = {spec.dtype for spec in specs}
        common_property("types", sorted(str(dtype) for dtype in dtypes - {None}))
        common_property("sample dimensions", [_dimensions(spec) for spec in specs if _dimensions(spec) is not None])
        dtype = dtypes.pop() if len(dtypes) == 1 else None
        known = [spec.shape if spec.shape is not None else spec.extents for spec in specs]
        shapes = [extents for extents in known if extents is not None]
        if len(shapes) < len(known) or len({len(extents) for extents in shapes}) != 1:
            return _State(selected, dtype), [OutputSpec(layout, None, dtype)]
        common = [column[0] if len(set(column)) == 1 else None for column in zip(*shapes, strict=True)]
        return _State(selected, dtype), [describe(layout, common, dtype)]

    def run(self, state: _State, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        selected = inputs[state.selected[sample]]
        state.dimensions.add(selected.ndim)
        common_property("sample dimensions", sorted(state.dimensions))
        if out is None:
            return selected
        np.copyto(out, selected, casting="no")
        return out


@implements(MERGE, "gpu")
class MergeGpu(GpuOperator):
    """Passes samples on without a copy. Branches that are expressions are computed into one batch."""

    traits = replace(GpuOperator.traits, repeatable=False, per_sample=True)

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        branches = self._branches(batch, _selected(batch, self.node))
        parts = _expressed(batch, branches)
        return [_joined(batch, branches) if parts is None else self._computed(batch, parts)]

    def _branches(self, batch: Batch, selected: Array) -> list[_Branch]:
        """Return the branches that samples took, in order."""
        order = np.argsort(selected, kind="stable")
        begins = np.cumsum(np.bincount(selected)).tolist()
        branches: list[_Branch] = []
        for edge, begin, end in zip(self.node.inputs, [0, *begins], begins, strict=False):
            if begin == end:
                continue
            samples = order[begin:end]
            source = branch_batch(batch, batch.branches.get(edge, ()))
            assert source is not None  # a sample took this branch
            indices: Array | None = None
            if source.size != len(samples):
                own = samples if batch.positions is None else batch.positions[samples]
                indices = own if source.indices is None else source.indices[own]
            branches.append(_Branch(edge, samples, indices))
        return branches

    def _computed(self, batch: Batch, parts: Sequence[tuple[Array, PixelExpression]]) -> TensorListGPU:
        """Compute the samples of all branches, with one launch for each kind of expression."""
        layout = _common([(pixels.dtype, pixels.ndim, pixels.layout) for _, pixels in parts])
        kinds: dict[tuple[str, str], list[tuple[Array, PixelExpression]]] = {}
        for part in parts:
            kinds.setdefault((part[1].kind, part[1].order), []).append(part)
        joined = [PixelExpression.concatenate([pixels for _, pixels in alike]) for alike in kinds.values()]
        positions = np.concatenate([samples for alike in kinds.values() for samples, _ in alike])
        shapes = np.empty((batch.size, joined[0].ndim), np.int64)
        shapes[positions] = np.concatenate([pixels.shapes for pixels in joined])
        output, target = allocate(shapes, joined[0].dtype, layout)
        placed, begin = target.take(positions), 0
        for pixels in joined:
            end = begin + len(pixels)
            self.kernels.run(pixels.launch(placed.take(slice(begin, end))), batch.stream)
            begin = end
        return output


@dataclass(frozen=True)
class _Branch:
    """The samples that a merge takes from one of its inputs.

    Attributes:
        edge: the input.
        samples: their positions in the batch of the merge.
        indices: their indices in the input; None if they are all of its samples.
    """

    edge: Edge
    samples: Array
    indices: Array | None


def _expressed(batch: Batch, branches: Sequence[_Branch]) -> list[tuple[Array, PixelExpression]] | None:
    """Return positions in the batch of the merge, and the pixels there; None if all pixels are in memory.

    Outputs that are one expression stay one.
    """
    whole = {branch.edge: branch for branch in branches if branch.indices is None}
    parts: list[tuple[Array, PixelExpression]] = []
    done: set[Edge] = set()
    for branch in branches:
        if branch.edge in done:
            continue
        edges = batch.outputs.deferred_with(branch.edge)
        if len(edges) > 1 and whole.keys() >= set(edges):
            pixels = batch.outputs.pixels_of_all(edges)
            samples = np.concatenate([whole[edge].samples for edge in edges])
        else:
            edges, samples, pixels = (branch.edge,), branch.samples, batch.outputs.pixels(branch.edge)
        if pixels is None:
            return None
        done.update(edges)
        parts.append((samples, pixels if branch.indices is None else pixels.take(branch.indices)))
    return None if all(pixels.in_memory for _, pixels in parts) else parts


def _joined(batch: Batch, branches: Sequence[_Branch]) -> TensorListGPU:
    """Return the samples of all branches, which are in memory."""
    taken = [cast("TensorListGPU", batch.outputs[branch.edge]) for branch in branches]
    layout = _common([(each.table().dtype, each.ndim, each.layout()) for each in taken])
    tables = [
        each.table() if branch.indices is None else each.table().take(branch.indices)
        for each, branch in zip(taken, branches, strict=True)
    ]
    order = np.argsort(np.concatenate([branch.samples for branch in branches]))
    return TensorListGPU.from_table(Samples.concatenate(tables).take(order), tuple(taken), taken[0].device_id(), layout)


def _common(descriptions: Sequence[tuple[np.dtype[Any], int, str]]) -> str:
    """Check that the dtypes, dimensions and layouts of branches agree. Return the layout."""
    if len(set(descriptions)) > 1:
        dtypes, dimensions, layouts = zip(*descriptions, strict=True)
        common_property("layouts", layouts)
        common_property("types", [str(dtype) for dtype in dtypes])
        common_property("sample dimensions", dimensions)
    return descriptions[0][2]
