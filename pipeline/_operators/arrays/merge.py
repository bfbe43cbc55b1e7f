"""Merges the outputs of branches: for each sample, the output of the branch that it took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import REQUIRED, Argument, Input, Kind, OperatorSchema
from pipeline._graph.graph import Edge
from pipeline._kernels import Samples
from pipeline._kernels.expression import PixelExpression
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.branch_batches import branch_batch
from pipeline._operator_api.gpu_operator import GpuOperator, allocate
from pipeline._operator_api.operator import OutputSpec, SampleOperator
from pipeline._operator_api.output_specs import describe
from pipeline.errors import ArgumentValueError
from pipeline.tensors.cpu import Array
from pipeline.tensors.gpu import TensorListGPU

__all__ = ["MERGE", "common_property"]

MERGE = register(
    OperatorSchema(
        name="merge",
        doc="Returns for each sample the input of the branch that it took.",
        inputs=(Input("branch", "Output of a branch."),),
        arguments=(Argument("selector", Kind.INT, "Index of the input.", REQUIRED, per_sample=True),),
        devices=("cpu", "gpu"),
        variadic=True,
        merges=True,
        hidden=True,
    )
)


def _selected(batch: Batch, node: Any) -> Array:
    chosen = batch.arguments(node).scalars("selector", np.int64)
    assert chosen is not None
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

    only_launches = True

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        branches = self._branches(batch, _selected(batch, self.node))
        pixels = [batch.outputs.pixels(branch.edge) for branch in branches]
        if None in pixels or all(each is None or each.in_memory for each in pixels):
            return [_joined(batch, branches)]
        taken = [
            each if branch.indices is None else each.take(branch.indices)
            for each, branch in zip(cast("list[PixelExpression]", pixels), branches, strict=True)
        ]
        return [self._computed(batch, branches, taken)]

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

    def _computed(self, batch: Batch, branches: Sequence[_Branch], taken: Sequence[PixelExpression]) -> TensorListGPU:
        """Compute the samples of all branches, with one launch for each kind of expression."""
        layout = _common([each.dtype for each in taken], [each.ndim for each in taken], [each.layout for each in taken])
        shapes = np.empty((batch.size, taken[0].ndim), np.int64)
        kinds: dict[str, list[int]] = {}
        for number, (branch, pixels) in enumerate(zip(branches, taken, strict=True)):
            shapes[branch.samples] = pixels.shapes
            kinds.setdefault(pixels.kind + pixels.order, []).append(number)
        output, target = allocate(shapes, taken[0].dtype, layout)
        for numbers in kinds.values():
            joined = PixelExpression.concatenate([taken[number] for number in numbers])
            samples = np.concatenate([branches[number].samples for number in numbers])
            self.kernels.run(joined.launch(target.take(samples)), batch.stream)
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


def _joined(batch: Batch, branches: Sequence[_Branch]) -> TensorListGPU:
    """Return the samples of all branches, which are in memory."""
    taken = [cast("TensorListGPU", batch.outputs[branch.edge]) for branch in branches]
    layout = _common(
        [each.table().dtype for each in taken], [each.ndim for each in taken], [each.layout() for each in taken]
    )
    tables = [
        each.table() if branch.indices is None else each.table().take(branch.indices)
        for each, branch in zip(taken, branches, strict=True)
    ]
    order = np.argsort(np.concatenate([branch.samples for branch in branches]))
    return TensorListGPU.from_table(Samples.concatenate(tables).take(order), tuple(taken), taken[0].device_id(), layout)


def _common(dtypes: Sequence[Any], dimensions: Sequence[int], layouts: Sequence[str]) -> str:
    """Check that branches agree, and return their layout."""
    layout: str = common_property("layouts", layouts)
    common_property("types", [str(dtype) for dtype in dtypes])
    common_property("sample dimensions", dimensions)
    return layout
