"""Equalizes the contrast of the tiles of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np

from dali_proxy.pipeline._declaration import REQUIRED, Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._imaging.scratch import scratch
from dali_proxy.pipeline._kernels import Samples
from dali_proxy.pipeline._kernels.clahe import ClahePlan
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import GpuOperator, allocate, samples_of
from dali_proxy.pipeline._operator_api.layouts import choose_layout
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator
from dali_proxy.pipeline._operator_api.output_dtype import check_samples
from dali_proxy.pipeline._operator_api.output_specs import describe, layout_and_extents
from dali_proxy.pipeline.errors import ArgumentValueError, PipelineError
from dali_proxy.pipeline.tensors.cpu import Array
from dali_proxy.pipeline.types import UINT8


def _check_tiles(node: GraphNode) -> None:
    for name in ("tiles_x", "tiles_y"):
        if node.argument(name) < 1:
            raise ArgumentValueError(f"argument {name!r} must be 1 or more, not {node.argument(name)}")


CLAHE = declare_operator(
    name="clahe",
    doc="""Equalizes the histogram of each tile of an image, with a limited contrast (CLAHE), as OpenCV does.

Between the centres of tiles, their results are interpolated.""",
    inputs=(Input("data", "Images, HWC, UINT8 with 1 or 3 channels; 3 channels are RGB."),),
    arguments=(
        Argument("tiles_x", Kind.INT, "Number of tiles along the width.", REQUIRED),
        Argument("tiles_y", Kind.INT, "Number of tiles along the height.", REQUIRED),
        Argument(
            "clip_limit",
            Kind.FLOAT,
            "Largest count of a value in a histogram, relative to the mean of all values; unlimited if 0 or less.",
            REQUIRED,
        ),
        Argument("luma_only", Kind.BOOL, "Equalize only the luminance of RGB images, else each channel alone.", True),
        Argument("bins", Kind.INT, "Accepted for compatibility; there are 256 values.", 256),
    ),
    devices=("cpu", "gpu"),
    check=_check_tiles,
)


def _check(shape: Sequence[int], dtype: np.dtype[Any]) -> None:
    check_samples(dtype, (UINT8,))
    if shape[2] not in (1, 3):
        raise PipelineError(f"images need 1 or 3 channels, but the shape of the sample is {tuple(shape)}")


@implements(CLAHE, "cpu")
class ClaheCpu(SampleOperator[None]):
    """Runs OpenCV for each image."""

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[None, Sequence[OutputSpec]]:
        (data,) = inputs
        layout, known = layout_and_extents(batch, self.node, inputs, ("HWC",))
        return None, [describe(layout, known, data.dtype)]

    def run(self, state: None, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        (image,) = inputs
        _check(image.shape, image.dtype)
        if out is None:
            out = np.empty(image.shape, image.dtype)
        if not image.size:
            return out
        argument = self.node.argument
        equalizer = cv2.createCLAHE(argument("clip_limit"), (argument("tiles_x"), argument("tiles_y")))
        if image.shape[2] == 3 and argument("luma_only"):
            converted = cv2.cvtColor(
                np.ascontiguousarray(image), cv2.COLOR_RGB2LAB, scratch("Lab", image.shape, np.uint8)
            )
            lightness = scratch("lightness", image.shape[:2], np.uint8)
            cv2.extractChannel(converted, 0, lightness)
            cv2.insertChannel(equalizer.apply(lightness, lightness), converted, 0)
            equalized = cv2.cvtColor(converted, cv2.COLOR_LAB2RGB, out if out.flags.c_contiguous else None)
            if equalized is not out:
                np.copyto(out, equalized)
            return out
        for channel in range(image.shape[2]):
            out[..., channel] = equalizer.apply(np.ascontiguousarray(image[..., channel]))
        return out


@implements(CLAHE, "gpu")
class ClaheGpu(GpuOperator):
    """Two launches per batch and number of channels: tables of the tiles, and the images."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        (data,) = inputs
        source, layout = samples_of(data), choose_layout(data.layout(), data.ndim, ("HWC",))
        for shape in source.shapes.tolist():
            _check(shape, source.dtype)
        output, target = allocate(source.shapes, source.dtype, layout)
        for channels in np.unique(source.shapes[:, 2]).tolist():
            chosen = np.flatnonzero((source.shapes[:, 2] == channels) & source.shapes.all(axis=1))
            if len(chosen):
                self._equalize(batch, source.take(chosen), target.take(chosen))
        return [output]

    def _equalize(self, batch: Batch, source: Samples, target: Samples) -> None:
        images = PixelExpression.from_samples(source, "HWC")
        assert images is not None
        by_lightness = images.channels == 3 and self.node.argument("luma_only")
        tiles = self.node.argument("tiles_y"), self.node.argument("tiles_x")
        plan = ClahePlan(
            images.lightness() if by_lightness else images,
            tiles,
            self.node.argument("clip_limit"),
            1 if by_lightness else images.channels,
        )
        scratch = self.kernels.scratch(plan.scratch_bytes, batch.stream)
        self.launch(plan.tables(scratch), batch)
        equalized = plan.equalized(scratch)
        self.launch((equalized.colors() if by_lightness else equalized).launch(target), batch)
