"""Converts images between colour spaces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dali_proxy.pipeline._declaration import REQUIRED, Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._imaging import color_matrix, convert_color
from dali_proxy.pipeline._imaging.convert import COLOR_CHANNELS
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.layouts import choose_layout
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator, Setup
from dali_proxy.pipeline._operator_api.output_dtype import check_samples
from dali_proxy.pipeline._operator_api.output_specs import describe, layout_and_extents
from dali_proxy.pipeline._operator_api.pixel_operator import PixelOperator
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array
from dali_proxy.pipeline.types import UINT8

_LAYOUTS = ("FDHWC", "FHWC", "DHWC", "HWC")

COLOR_SPACE_CONVERSION = declare_operator(
    name="color_space_conversion",
    doc="Converts images between RGB, BGR, GRAY and YCbCr (ITU-R BT.601, Y from 16 to 235).",
    inputs=(Input("data", f"UINT8 images, of one of the layouts {', '.join(_LAYOUTS)}."),),
    arguments=(
        Argument("image_type", Kind.IMAGE_TYPE, "Colour space of the input.", REQUIRED),
        Argument("output_type", Kind.IMAGE_TYPE, "Colour space of the output.", REQUIRED),
    ),
    devices=("cpu", "gpu"),
)


def _spaces(node: GraphNode) -> tuple[str, str]:
    """Return the names of the input's and the output's colour space."""
    names = [node.argument(name).name for name in ("image_type", "output_type")]
    for argument, name in zip(("image_type", "output_type"), names, strict=True):
        if name not in COLOR_CHANNELS:
            raise ArgumentValueError(f"argument {argument!r} must be RGB, BGR, GRAY or YCbCr, not {name}")
    return names[0], names[1]


def _check_channels(channels: int, space: str) -> None:
    if channels != COLOR_CHANNELS[space]:
        raise ArgumentValueError(f"the image has {channels} channels, but {space} has {COLOR_CHANNELS[space]}")


@implements(COLOR_SPACE_CONVERSION, "cpu")
class ColorSpaceConversionCpu(SampleOperator[None]):
    """Passes samples on if the colour space doesn't change."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._source, self._target = _spaces(node)

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[None, Sequence[OutputSpec]]:
        layout, known = layout_and_extents(batch, self.node, inputs, _LAYOUTS)
        extents = None if known is None else (*known[:-1], COLOR_CHANNELS[self._target])
        return None, [describe(layout, extents, np.dtype(np.uint8))]

    def run(self, state: None, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        (data,) = inputs
        check_samples(data.dtype, (UINT8,))
        _check_channels(data.shape[-1], self._source)
        converted = convert_color(data, self._source, self._target, out)
        if out is None or converted is out:
            return converted
        np.copyto(out, converted)
        return out


@implements(COLOR_SPACE_CONVERSION, "gpu")
class ColorSpaceConversionGpu(PixelOperator):
    """Multiplies pixels by a matrix, in the kernel of the operators around it."""

    layouts = _LAYOUTS

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._source, self._target = _spaces(node)

    def check_channels(self, channels: int) -> None:
        _check_channels(channels, self._source)

    def express(self, batch: Batch, pixels: PixelExpression) -> PixelExpression | None:
        layout = choose_layout(pixels.layout, pixels.ndim, _LAYOUTS)
        check_samples(pixels.dtype, (UINT8,))
        if pixels.channels != COLOR_CHANNELS[self._source]:
            return None
        return pixels.named(layout).matrix(*color_matrix(self._source, self._target), pixels.dtype)
