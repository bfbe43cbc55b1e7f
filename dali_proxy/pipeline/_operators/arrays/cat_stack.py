"""`cat` and `stack`: concatenation along an existing axis, or along a new one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._kernels import Samples
from dali_proxy.pipeline._kernels.join import plan_join
from dali_proxy.pipeline._operator_api.axes import axes_by_name
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import GpuOperator, allocate, samples_of
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator, Setup
from dali_proxy.pipeline._operator_api.output_specs import Extents, describe, known_extents
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array

_INPUTS = (
    Input("input_0", "Samples."),
    Input("inputs", "Further samples with the same dtype and, except along the axis, the same shape.", optional=True),
)


def _check_name(node: GraphNode) -> None:
    name: str | None = node.argument("axis_name")
    if name is not None and len(name) != 1:
        raise ArgumentValueError(f"``axis_name`` must be a single character; got {name}")
    if name is not None and node.operator == CAT.name and "axis" in node.arguments:
        raise ArgumentValueError("arguments 'axis' and 'axis_name' can't be used together")


CAT = declare_operator(
    name="cat",
    doc="Joins samples along an existing axis.",
    inputs=_INPUTS,
    arguments=(
        Argument("axis", Kind.INT, "Index of the axis; negative ones count from the end.", 0),
        Argument("axis_name", Kind.STRING, "Layout letter of the axis, instead of `axis`."),
    ),
    devices=("cpu", "gpu"),
    variadic=True,
    check=_check_name,
)

STACK = declare_operator(
    name="stack",
    doc="Joins samples along a new axis.",
    inputs=_INPUTS,
    arguments=(
        Argument("axis", Kind.INT, "Index of the new axis in the output; -1 is the last one.", 0),
        Argument("axis_name", Kind.STRING, "Layout letter of the new axis; without it the output has no layout."),
    ),
    devices=("cpu", "gpu"),
    variadic=True,
    check=_check_name,
)


def _common_layout(layouts: Sequence[str]) -> str:
    distinct = {layout for layout in layouts if layout}
    if len(distinct) > 1:
        raise ArgumentValueError(f"the inputs have different layouts: {', '.join(map(repr, sorted(distinct)))}")
    return distinct.pop() if distinct else ""


def _axis(node: GraphNode, layout: str, ndim: int) -> int:
    """Return the axis of the result as a non-negative index."""
    axis, new = int(node.argument("axis")), node.operator == STACK.name
    if not new and node.argument("axis_name") is not None:
        (axis,) = axes_by_name(node.argument("axis_name"), layout)
    if not -ndim <= axis < ndim + new:
        raise ArgumentValueError(
            f"Invalid axis argument, {axis} for {ndim}-D tensors. Accepted range is [{-ndim}, {ndim + new - 1}]"
        )
    # In DALI, -1 is the last position for a new axis, and -ndim the position after the first axis.
    return axis + ndim + new if axis < 0 else axis


def _result_layout(node: GraphNode, layout: str, ndim: int) -> str:
    if node.operator == CAT.name:
        return layout
    name = node.argument("axis_name")
    if name is None:
        return ""
    if ndim and not layout:
        raise ArgumentValueError(
            "argument 'axis_name' extends the layout of the inputs, but they have no layout: give them "
            "one with reinterpret(..., layout=), or leave 'axis_name' out"
        )
    axis = _axis(node, layout, ndim)
    return layout[:axis] + str(name) + layout[axis:]


def _result_extents(shapes: Sequence[Extents], axis: int, new: bool) -> Extents:
    """Return the known extents of the result."""
    rest = [list(shape) for shape in shapes]
    lengths = [1] * len(shapes) if new else [shape.pop(axis) for shape in rest]
    known = [next((extent for extent in column if extent is not None), None) for column in zip(*rest, strict=True)]
    known.insert(axis, None if None in lengths else sum(length or 0 for length in lengths))
    return tuple(known)


def _check_shapes(shapes: Sequence[Sequence[int]], axis: int, new: bool) -> None:
    rest = {tuple(shape) if new else (*shape[:axis], *shape[axis + 1 :]) for shape in shapes}
    if len(rest) > 1:
        found = " and ".join(str(tuple(shape)) for shape in dict.fromkeys(map(tuple, shapes)))
        raise ArgumentValueError(f"shapes {found} can't be joined" + ("" if new else f" along axis {axis}"))


@implements(CAT, "cpu")
@implements(STACK, "cpu")
class JoinCpu(SampleOperator[str]):
    """Joins samples. The state is the layout of the inputs."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._new = node.operator == STACK.name

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[str, Sequence[OutputSpec]]:
        layout = _common_layout([data.layout for data in inputs])
        known = [known_extents(batch, self.node, inputs, position) for position in range(len(inputs))]
        dtypes = {data.dtype for data in inputs if data.dtype is not None}
        dtype = None if len(dtypes) != 1 or any(data.dtype is None for data in inputs) else dtypes.pop()
        shapes = [shape for shape in known if shape is not None]
        ndims = {len(shape) for shape in shapes}
        if len(shapes) < len(known) or len(ndims) > 1:
            result_layout = _result_layout(self.node, layout, len(layout)) if layout else ""
            return layout, [describe(result_layout, None, dtype)]
        ndim = ndims.pop()
        extents = _result_extents(shapes, _axis(self.node, layout, ndim), self._new)
        return layout, [describe(_result_layout(self.node, layout, ndim), extents, dtype)]

    def run(self, state: str, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        first = inputs[0]
        for position, data in enumerate(inputs):
            _check_kind(position, (data.dtype, data.ndim), (first.dtype, first.ndim))
        axis = _axis(self.node, state, first.ndim)
        _check_shapes([data.shape for data in inputs], axis, self._new)
        join = np.stack if self._new else np.concatenate
        return join(inputs, axis, out=out)


def _check_kind(position: int, found: tuple[np.dtype[Any], int], first: tuple[np.dtype[Any], int]) -> None:
    if found != first:
        raise ArgumentValueError(
            f"input 0 is {first[0]} with {first[1]} dimensions, input {position} is {found[0]} with {found[1]}: they "
            f"must be the same"
        )


@implements(CAT, "gpu")
@implements(STACK, "gpu")
class JoinGpu(GpuOperator):
    """Joins the samples of a batch with one launch."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._new = node.operator == STACK.name

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        layout = _common_layout([data.layout() for data in inputs])
        contiguous = [self.contiguous(data, batch.stream) for data in inputs]
        sources = [samples_of(data) for data in contiguous]
        first = sources[0]
        for position, source in enumerate(sources):
            _check_kind(position, (source.dtype, source.ndim), (first.dtype, first.ndim))
        axis = _axis(self.node, layout, first.ndim)
        same = np.array([source.shapes == first.shapes for source in sources]).all(axis=(0, 1))
        if not np.delete(same, () if self._new else axis).all():
            for sample in range(len(first)):
                _check_shapes([source.shapes[sample].tolist() for source in sources], axis, self._new)
        if self._new:
            sources = [_with_axis(source, axis) for source in sources]
        shapes = sources[0].shapes.copy()
        shapes[:, axis] = sum(source.shapes[:, axis] for source in sources)
        output, target = allocate(shapes, first.dtype, _result_layout(self.node, layout, first.ndim))
        for launch in plan_join(sources, target, axis):
            self.launch(launch, batch)
        batch.keep_alive.extend(contiguous)
        return [output]


def _with_axis(samples: Samples, axis: int) -> Samples:
    shapes, strides = np.insert(samples.shapes, axis, 1, axis=1), np.insert(samples.strides, axis, 0, axis=1)
    return Samples(samples.pointers, shapes, strides, samples.dtype)
