"""`reductions.*`: sums, means, extremes and deviations along axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from dali_proxy.pipeline._declaration import Argument, Input, Kind, OperatorSchema, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._imaging.reductions import REDUCTIONS, reduce, result_dtype
from dali_proxy.pipeline._kernels.reduce import ReductionPlan
from dali_proxy.pipeline._kernels.strided_copy import plan_strided_copy
from dali_proxy.pipeline._operator_api.axes import AXES, AXIS_NAMES, chosen_axes
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import GpuOperator, allocate, samples_of
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator, Setup
from dali_proxy.pipeline._operator_api.output_specs import describe, known_extents
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array
from dali_proxy.pipeline.types import to_numpy_type

#: An extent, or None if it isn't known.
Extent = TypeVar("Extent", int, int | None)

_DOCS = {
    "sum": "Computes sums along axes.",
    "min": "Computes minima along axes; NaN is ignored.",
    "max": "Computes maxima along axes; NaN is ignored.",
    "mean": "Computes means along axes.",
    "mean_square": "Computes means of squares along axes.",
    "rms": "Computes roots of the means of squares along axes.",
    "variance": "Computes means of the squared differences from a given mean along axes.",
    "std_dev": "Computes roots of the means of the squared differences from a given mean along axes.",
}
_DTYPE = Argument(
    "dtype",
    Kind.DTYPE,
    "Dtype of the result; by default 64-bit integers for sums of integers, else FLOAT. Integer sums wrap around, and "
    "integer means are truncated.",
)
_KEEP = Argument("keep_dims", Kind.BOOL, "Keep the axes, with an extent of 1.", False)
_DDOF = Argument("ddof", Kind.INT, "Subtracted from the number of elements in the divisor.", 0)


def _declare(name: str) -> OperatorSchema:
    inputs: tuple[Input, ...] = (Input("data", "Samples of any shape."),)
    special: tuple[Argument, ...] = (_DTYPE,) if REDUCTIONS[name].combine == "sum" else ()
    if REDUCTIONS[name].term == "difference":
        inputs += (Input("mean", "Means: one per sample, or one per element of the output."),)
        special = (_DDOF,)
    return declare_operator(
        f"reductions.{name}", _DOCS[name], inputs, (AXES, AXIS_NAMES, _KEEP, *special), devices=("cpu", "gpu")
    )


#: Schemas by the name of the reduction.
OPERATORS = {name: _declare(name) for name in REDUCTIONS}


def _result_layout(node: GraphNode, layout: str) -> str:
    axes = chosen_axes(node, layout, len(layout)) if layout else ()
    return layout if node.argument("keep_dims") else "".join(layout[a] for a in range(len(layout)) if a not in axes)


def _result_dtype(node: GraphNode, source: np.dtype[Any]) -> np.dtype[Any]:
    wanted = node.argument("dtype")
    dtype = result_dtype(REDUCTIONS[_name(node)], source) if wanted is None else to_numpy_type(wanted)
    if dtype.kind == "b" and REDUCTIONS[_name(node)].combine == "sum":
        raise ArgumentValueError("argument 'dtype' can't be BOOL, which can't hold sums")
    return dtype


def _name(node: GraphNode) -> str:
    return node.operator.rpartition(".")[2]


def _result_extents(
    node: GraphNode, shape: Sequence[Extent], axes: Sequence[int], keep_dims: bool | None = None
) -> tuple[Extent, ...]:
    """Return the shape of a result. By default, the argument `keep_dims` of the operator applies."""
    if node.argument("keep_dims") if keep_dims is None else keep_dims:
        return tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))
    return tuple(extent for axis, extent in enumerate(shape) if axis not in axes)


def _check_mean(mean: Sequence[int], kept: Sequence[int], dropped: Sequence[int]) -> None:
    if math.prod(mean) != 1 and tuple(mean) not in (tuple(kept), tuple(dropped)):
        raise ArgumentValueError(
            f"the means have the shape {tuple(mean)}: they must be one number per sample, or have the shape of the "
            f"result, {tuple(dropped)}, or {tuple(kept)} with the reduced axes"
        )


class ReductionCpu(SampleOperator[str]):
    """Reduces sample by sample. The state is the layout."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._reduction = REDUCTIONS[_name(node)]

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[str, Sequence[OutputSpec]]:
        data, known = inputs[0], known_extents(batch, self.node, inputs)
        layout = _result_layout(self.node, data.layout)
        dtype = None if data.dtype is None else _result_dtype(self.node, data.dtype)
        if known is None:
            return data.layout, [describe(layout, None, dtype)]
        axes = chosen_axes(self.node, data.layout, len(known))
        return data.layout, [describe(layout, _result_extents(self.node, known, axes), dtype)]

    def run(self, state: str, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        data = inputs[0]
        axes = chosen_axes(self.node, state, data.ndim)
        mean = inputs[1] if len(inputs) > 1 else None
        if mean is not None:
            ones = tuple(1 if axis in axes else extent for axis, extent in enumerate(data.shape))
            _check_mean(mean.shape, ones, _result_extents(self.node, data.shape, axes, keep_dims=False))
            mean = mean.reshape(() if mean.size == 1 else ones)
        made = reduce(
            data,
            self._reduction,
            axes,
            _result_dtype(self.node, data.dtype),
            mean=mean,
            ddof=self.node.argument("ddof") or 0,
        ).reshape(_result_extents(self.node, data.shape, axes))
        if out is None:
            return made
        np.copyto(out, made)
        return out


class ReductionGpu(GpuOperator):
    """Reduces a batch with two launches."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        data = inputs[0]
        axes = chosen_axes(self.node, data.layout(), data.ndim)
        source = samples_of(data)
        if self.node.argument("keep_dims"):
            shapes = source.shapes.copy()
            shapes[:, list(axes)] = 1
        else:
            shapes = source.shapes[:, [axis for axis in range(source.ndim) if axis not in axes]]
        made, target = allocate(
            shapes, _result_dtype(self.node, source.dtype), _result_layout(self.node, data.layout())
        )
        mean = None
        if len(inputs) > 1:
            rows = map(tuple, source.shapes.tolist())
            for row, extents in dict.fromkeys(zip(rows, inputs[1].shape(), strict=True)):  # each pair once
                ones = [1 if axis in axes else extent for axis, extent in enumerate(row)]
                _check_mean(extents, ones, _result_extents(self.node, row, axes, keep_dims=False))
            given = samples_of(inputs[1])
            if given.dtype != np.float32 or not given.is_contiguous():
                held, mean = allocate(given.shapes, np.dtype(np.float32))
                self.launch(plan_strided_copy(given, mean), batch)
                batch.keep_alive.append(held)
            else:
                mean = given
        reduction, ddof = REDUCTIONS[_name(self.node)], self.node.argument("ddof") or 0
        self.launch(ReductionPlan(source, target, reduction, axes=axes, mean=mean, ddof=ddof), batch)
        return [made]


for _schema in OPERATORS.values():
    implements(_schema, "cpu")(ReductionCpu)
    implements(_schema, "gpu")(ReductionGpu)
