"""Merges the outputs of branches: for each sample, the output of the branch that it took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import REQUIRED, Argument, Input, Kind, OperatorSchema
from pipeline._kernels import Samples
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.branch_batches import branch_batch
from pipeline._operator_api.operator import BatchOperator, OutputSpec, SampleOperator
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


def _selected(batch: Batch, node: Any) -> list[int]:
    chosen = batch.arguments(node).scalars("selector", np.int64)
    assert chosen is not None
    wrong = np.flatnonzero((chosen < 0) | (chosen >= len(node.inputs)))
    if len(wrong):
        raise ArgumentValueError(f"branch {chosen[wrong[0]]} is chosen, but there are {len(node.inputs)} branches")
    selected: list[int] = chosen.tolist()
    return selected


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


@implements(MERGE, "cpu")
class MergeCpu(SampleOperator[_State]):
    """Passes samples on; copies them if the memory of the output is already allocated."""

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[_State, Sequence[OutputSpec]]:
        selected = _selected(batch, self.node)
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
        if out is None:
            return selected
        np.copyto(out, selected, casting="no")
        return out


@implements(MERGE, "gpu")
class MergeGpu(BatchOperator):
    """Passes samples on without a copy."""

    only_launches = True

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        selected = np.array(_selected(batch, self.node))
        chosen = np.unique(selected).tolist()
        edges = [self.node.inputs[branch] for branch in chosen]
        taken = [cast("TensorListGPU", batch.outputs[edge]) for edge in edges]
        layout = common_property("layouts", [each.layout() for each in taken])
        common_property("types", [str(each.table().dtype) for each in taken])
        common_property("sample dimensions", [each.ndim for each in taken])
        # The index of each sample in the batches of all branches, one after the other.
        indices, begin = np.empty(batch.size, np.int64), 0
        for branch, edge, value in zip(chosen, edges, taken, strict=True):
            samples = np.flatnonzero(selected == branch)
            source = branch_batch(batch, batch.branches.get(edge, ()))
            assert source is not None  # a sample took this branch
            own = samples if batch.positions is None else batch.positions[samples]
            indices[samples] = begin + (own if source.indices is None else source.indices[own])
            begin += len(value)
        table = Samples.concatenate([each.table() for each in taken]).take(indices)
        return [TensorListGPU.from_table(table, tuple(taken), taken[0].device_id(), layout)]
