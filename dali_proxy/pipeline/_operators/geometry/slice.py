"""Slices samples along chosen axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import Input, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.batch import ArgumentCache, Batch
from dali_proxy.pipeline._operator_api.gpu_operator import each_sample
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator, Setup
from dali_proxy.pipeline._operator_api.output_dtype import dtype_arguments, output_dtype
from dali_proxy.pipeline._operator_api.output_specs import describe, known_extents
from dali_proxy.pipeline._operators.geometry.gpu_windows import GpuWindows, WindowGpu
from dali_proxy.pipeline._operators.geometry.slice_arguments import (
    SLICE_ARGUMENTS,
    Positional,
    SliceWindows,
    positional,
)
from dali_proxy.pipeline._operators.geometry.windows import (
    BORDER_POLICIES,
    canonical_policy,
    check_fill_values,
    cut,
    fill_argument,
    policy_argument,
)
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU

SLICE = declare_operator(
    name="slice",
    doc="""Slices samples along chosen axes.

Named arguments define the window, or two more inputs: its anchor (first elements) and its shape. Relative values are
multiplied by the extent of the axis before they are rounded.""",
    inputs=(
        Input("data", "Samples of any shape."),
        Input(
            "anchor", "First elements of the windows: one number per axis, a fraction if float.", True, any_device=True
        ),
        Input("shape_input", "Extents of the windows, likewise.", True, any_device=True),
    ),
    arguments=(
        *SLICE_ARGUMENTS,
        policy_argument(BORDER_POLICIES),
        fill_argument(),
        *dtype_arguments("Dtype of the output; by default the input's. Floats are truncated to integers."),
    ),
    devices=("cpu", "gpu"),
)


@dataclass(frozen=True)
class _State:
    windows: Callable[[int], SliceWindows]  # by the number of dimensions, which may be unknown before the batch runs
    policy: str
    fill: tuple[float, ...]
    dtype: np.dtype[Any] | None
    normalized: tuple[bool, bool]


def _channel_axis(layout: str, fill: Sequence[float]) -> int | None:
    if len(fill) > 1 and "C" not in layout:
        raise ArgumentValueError(
            f"argument 'fill_values' has {len(fill)} values, but the layout {layout!r} has no channels"
        )
    return layout.index("C") if "C" in layout else None


def _check_inputs(count: int) -> bool:
    if count == 2:
        raise ArgumentTypeError(
            "Expected named slice arguments (e.g. start/end, start/shape) or positional inputs (start, shape): the "
            "anchor "
            "input needs a shape as the third input"
        )
    return count == 3


@implements(SLICE, "cpu")
class SliceCpu(SampleOperator[_State]):
    """Returns a view of the sample if the window lies inside and no conversion is needed."""

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[_State, Sequence[OutputSpec]]:
        arguments = batch.arguments(self.node)
        data = inputs[0]
        known = known_extents(batch, self.node, inputs)
        with_inputs = _check_inputs(len(inputs))
        windows = cache(lambda ndim: SliceWindows(arguments, batch.size, data.layout, ndim, with_inputs))
        dtype = output_dtype(self.node)
        state = _State(
            windows,
            canonical_policy(arguments.constant("out_of_bounds_policy")),
            arguments.constant("fill_values"),
            dtype,
            (arguments.constant("normalized_anchor"), arguments.constant("normalized_shape")),
        )
        ndim = len(data.layout) if known is None else len(known)
        if ndim:  # errors of arguments belong to the batch, not to a sample
            _channel_axis(windows(ndim).layout, state.fill)
        extents = None if known is None else windows(ndim).unsliced(known)
        return state, [describe(data.layout, extents, dtype or data.dtype)]

    def run(self, state: _State, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        data = inputs[0]
        bounds = positional(inputs[1], inputs[2], state.normalized) if len(inputs) == 3 else None
        windows = state.windows(data.ndim)
        start, extent = windows.locate(sample, data.shape, bounds)
        channel_axis = _channel_axis(windows.layout, state.fill)
        if len(state.fill) > 1:
            assert channel_axis is not None
            check_fill_values(state.fill, extent[channel_axis])
        return cut(
            data,
            start,
            extent,
            policy=state.policy,
            fill=state.fill,
            channel_axis=-1 if channel_axis is None else channel_axis,
            dtype=state.dtype,
            out=out,
        )


@dataclass(frozen=True)
class _Settings:
    windows: SliceWindows
    policy: str
    fill: tuple[float, ...]
    channel_axis: int | None
    dtype: np.dtype[Any] | None


@implements(SLICE, "gpu")
class SliceGpu(WindowGpu):
    """Cuts the same windows out of a batch; anchors and shapes must be on the CPU."""

    traits = replace(WindowGpu.traits, only_launches=False)

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._settings = ArgumentCache(node, self._read)

    def _read(self, batch: Batch, layout: str, ndim: int, inputs: int) -> _Settings:
        arguments = batch.arguments(self.node)
        windows = SliceWindows(arguments, batch.size, layout, ndim, _check_inputs(inputs))
        fill = arguments.constant("fill_values")
        policy = canonical_policy(arguments.constant("out_of_bounds_policy"))
        return _Settings(windows, policy, fill, _channel_axis(windows.layout, fill), output_dtype(self.node))

    def windows(
        self, batch: Batch, layout: str, shapes: Array, dtype: np.dtype[Any], bounds: Sequence[Any]
    ) -> GpuWindows:
        settings = self._settings.get(batch, layout, shapes.shape[1], 1 + len(bounds))
        starts, extents = self._locate(settings.windows, shapes, bounds)
        fill, channel_axis = settings.fill, settings.channel_axis
        if len(fill) > 1:
            for channels in set(extents[:, channel_axis].tolist()):
                check_fill_values(fill, channels)
        return GpuWindows(starts, extents, settings.policy, fill, layout, channel_axis, settings.dtype)

    def _locate(self, windows: SliceWindows, shapes: Array, inputs: Sequence[Any]) -> tuple[Array, Array]:
        for bound in inputs:
            if not isinstance(bound, TensorListCPU):
                raise ArgumentTypeError("the anchor and shape inputs must be on the CPU: add .cpu()")
        normalized = self.node.argument("normalized_anchor"), self.node.argument("normalized_shape")
        together = windows.locate_all(shapes, inputs, normalized)
        if together is not None:
            return together
        bounds: Sequence[Positional | None] = [None] * len(shapes)
        if inputs:
            bounds = [
                positional(anchor, shape, normalized)
                for anchor, shape in zip(*(data.samples for data in inputs), strict=True)
            ]
        located = each_sample(windows.locate, range(len(shapes)), shapes.tolist(), bounds)
        starts, extents = (np.array(column, np.int64) for column in zip(*located, strict=True))
        return starts, extents
