"""Crops windows of a given size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import Input, declare_operator, implements
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.layouts import CROP_LAYOUTS, choose_layout
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator
from dali_proxy.pipeline._operator_api.output_dtype import dtype_arguments, output_dtype
from dali_proxy.pipeline._operator_api.output_specs import describe, layout_and_extents
from dali_proxy.pipeline._operators.geometry.crop_arguments import CROP_ARGUMENTS, CropWindows
from dali_proxy.pipeline._operators.geometry.gpu_windows import GpuWindows, WindowGpu
from dali_proxy.pipeline._operators.geometry.windows import (
    BORDER_POLICIES,
    canonical_policy,
    check_fill_values,
    cut,
    fill_argument,
    policy_argument,
)
from dali_proxy.pipeline.tensors.cpu import Array

CROP = declare_operator(
    name="crop",
    doc="Crops windows of a given size out of images, volumes or sequences.",
    inputs=(Input("data", f"Images, of one of the layouts {', '.join(CROP_LAYOUTS)}; HWC without a layout."),),
    arguments=(
        *CROP_ARGUMENTS,
        policy_argument(BORDER_POLICIES),
        fill_argument(),
        *dtype_arguments("Dtype of the output; by default the input's. Floats are truncated to integers."),
    ),
    devices=("cpu", "gpu"),
)


@dataclass(frozen=True)
class _State:
    windows: CropWindows
    policy: str
    fill: tuple[float, ...]
    channel_axis: int
    dtype: np.dtype[Any] | None


@implements(CROP, "cpu")
class CropCpu(SampleOperator[_State]):
    """Returns a view of the sample if the window lies inside and no conversion is needed."""

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[_State, Sequence[OutputSpec]]:
        arguments = batch.arguments(self.node)
        layout, known = layout_and_extents(batch, self.node, inputs, CROP_LAYOUTS)
        windows = CropWindows(arguments, batch.size, layout)
        policy = canonical_policy(arguments.constant("out_of_bounds_policy"))
        dtype = output_dtype(self.node)
        state = _State(windows, policy, arguments.constant("fill_values"), layout.index("C"), dtype)
        extents = None if policy == "trim_to_shape" else windows.extents(known)
        return state, [describe(layout, extents, dtype or inputs[0].dtype)]

    def run(self, state: _State, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        image = inputs[0]
        start, extent = state.windows.locate(sample, image.shape)
        return cut(
            image,
            start,
            extent,
            policy=state.policy,
            fill=check_fill_values(state.fill, image.shape[state.channel_axis]),
            channel_axis=state.channel_axis,
            dtype=state.dtype,
            out=out,
        )


@implements(CROP, "gpu")
class CropGpu(WindowGpu):
    """Cuts the same windows out of a batch."""

    traits = replace(WindowGpu.traits, only_launches=False)

    def windows(
        self, batch: Batch, layout: str, shapes: Array, dtype: np.dtype[Any], bounds: Sequence[Any]
    ) -> GpuWindows:
        arguments = batch.arguments(self.node)
        layout, fill = choose_layout(layout, shapes.shape[1], CROP_LAYOUTS), arguments.constant("fill_values")
        channel_axis = layout.index("C")
        for channels in set(shapes[:, channel_axis].tolist()):
            check_fill_values(fill, channels)
        starts, extents = CropWindows(arguments, batch.size, layout).locate_all(shapes)
        policy = canonical_policy(arguments.constant("out_of_bounds_policy"))
        return GpuWindows(starts, extents, policy, fill, layout, channel_axis, output_dtype(self.node))
