"""Merges the outputs of branches: for each sample, the output of the branch that it took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import REQUIRED, Argument, Input, Kind, OperatorSchema
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.branch_batches import aligned_samples
from pipeline._operator_api.operator import BatchOperator, OutputSpec, SampleOperator
from pipeline._operator_api.output_specs import describe
from pipeline.errors import ArgumentValueError
from pipeline.tensors.cpu import Array
from pipeline.tensors.gpu import TensorListGPU

__all__ = ["MERGE"]

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
        layout = next((spec.layout for spec in specs if spec.layout), "")
        dtypes = {spec.dtype for spec in specs}
        known_dtypes = dtypes - {None}
        if len(known_dtypes) > 1:
            names = " and ".join(sorted(map(str, known_dtypes)))
            raise ArgumentValueError(f"the branches return samples of {names}: use fn.cast in one of them")
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

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        selected = _selected(batch, self.node)
        branches = [aligned_samples(batch, edge) for edge in self.node.inputs]
        layouts = (batch.outputs[edge].layout() for edge in self.node.inputs if edge in batch.outputs)
        samples = [branches[chosen][sample] for sample, chosen in enumerate(selected)]
        return [TensorListGPU(samples, next((layout for layout in layouts if layout), ""))]
