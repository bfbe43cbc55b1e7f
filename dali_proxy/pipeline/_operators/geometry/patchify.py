"""Divides images and videos into patches, normalised, as the input of a vision transformer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import REQUIRED, Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._imaging.patches import ORDERS, PatchLayout, patchify
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._operator_api.batch import ArgumentCache, Batch
from dali_proxy.pipeline._operator_api.gpu_operator import each_sample
from dali_proxy.pipeline._operator_api.layouts import choose_layout
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator, Setup
from dali_proxy.pipeline._operator_api.output_dtype import output_dtype
from dali_proxy.pipeline._operator_api.output_specs import describe, layout_and_extents
from dali_proxy.pipeline._operator_api.pixel_operator import PixelOperator
from dali_proxy.pipeline._operators.geometry.normalization_arguments import (
    NORMALIZATION_ARGUMENTS,
    for_channels,
    gains_and_offsets,
)
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array
from dali_proxy.pipeline.types import FLOAT

_LAYOUTS = ("HWC", "FHWC", "CHW", "FCHW")
_NORMALIZATION = tuple([argument for argument in NORMALIZATION_ARGUMENTS if argument.name != "pad_output"])

PATCHIFY = declare_operator(
    name="patchify",
    doc="""Divides images and videos into patches, and normalises them: (pixel - mean) / std * scale + shift.

A sample of the output has a row for each patch, and no layout: (T * H * W, features), where T, H and W count patches.
The rows are in the order of time, then of squares of `merge_size` x `merge_size` patches, and the patches of a square
are adjacent. The last frame is repeated until the frames fill the last patches: an image fills `temporal_patch_size`
frames. Height and width must be multiples of `patch_size * merge_size`; `smart_resize` makes them so. On a GPU, the
patches are computed in the same kernel as the operators before it. DALI has no such operator.""",
    inputs=(Input("data", f"Images or videos, {', '.join(_LAYOUTS)}; HWC or FHWC without a layout."),),
    arguments=(
        Argument("patch_size", Kind.INT, "Rows and columns of a patch.", REQUIRED),
        Argument("merge_size", Kind.INT, "Side of the squares of patches that a model merges: 2 for Qwen-VL.", 1),
        Argument("temporal_patch_size", Kind.INT, "Frames of a patch: 2 for Qwen-VL.", 1),
        Argument(
            "order",
            Kind.STRING,
            "Order of the elements of a patch: channels, frames, rows and columns (Qwen-VL), or channels last "
            "(SigLIP 2).",
            "CTHW",
            choices=ORDERS,
        ),
        *_NORMALIZATION,
        Argument("dtype", Kind.DTYPE, "Dtype of the output. Integers are rounded.", FLOAT),
    ),
    devices=("cpu", "gpu"),
)


def _patches(node: GraphNode) -> PatchLayout:
    """Return the patches of a node.

    Raises:
        ArgumentValueError: a size isn't positive.
    """
    names = ("patch_size", "merge_size", "temporal_patch_size")
    for name in names:
        if node.argument(name) < 1:
            raise ArgumentValueError(f"argument {name!r} must be 1 or more, not {node.argument(name)}")
    patch, merge, frames = map(node.argument, names)
    return PatchLayout(patch, merge, frames, node.argument("order"))


def _check_size(height: int, width: int, patches: PatchLayout) -> None:
    if not height or not width or height % patches.factor or width % patches.factor:
        raise ArgumentValueError(
            f"an image of {height} x {width} can't be divided into patches: height and width must be multiples of "
            f"patch_size * merge_size = {patches.factor}; resize it by smart_resize(factor={patches.factor})"
        )


@dataclass(frozen=True)
class _State:
    layout: str
    gains: list[list[float]]
    offsets: list[list[float]]
    dtype: np.dtype[Any]


@implements(PATCHIFY, "cpu")
class PatchifyCpu(SampleOperator[_State]):
    """Writes each pixel once, straight to the memory of the batch if all images have one size."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._patches = _patches(node)
        names = [argument.name for argument in _NORMALIZATION]
        self._rows = ArgumentCache(
            node, lambda batch: tuple(table.tolist() for table in gains_and_offsets(batch.arguments(node))), names
        )

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[_State, Sequence[OutputSpec]]:
        layout, known = layout_and_extents(batch, self.node, inputs, _LAYOUTS)
        dtype = output_dtype(self.node)
        assert dtype is not None
        counts: list[int | None] = [None, None]
        if known is not None:
            sizes = dict(zip(layout, known, strict=True))
            frames, height, width, channels = (sizes.get(letter, 1) for letter in "FHWC")
            counts[1] = None if channels is None else self._patches.features(channels)
            if frames and height and width:
                counts[0] = int(self._patches.shapes(np.array([[frames, height, width]]), 1)[0, 0])
        gains, offsets = self._rows.get(batch)
        return _State(layout, gains, offsets, dtype), [describe("", counts, dtype)]

    def run(self, state: _State, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        data, patches = inputs[0], self._patches
        frames = data.reshape(1, *data.shape) if "F" not in state.layout else data
        if state.layout.endswith("CHW"):
            frames = frames.transpose(0, 2, 3, 1)
        count, height, width, channels = frames.shape
        _check_size(height, width, patches)
        if out is None:
            shape = patches.shapes(np.array([[count, height, width]]), channels)[0]
            out = np.empty(tuple(shape.tolist()), state.dtype)
        gains, offsets = (for_channels(values[sample], channels) for values in (state.gains, state.offsets))
        return patchify(frames, patches, out, gains, offsets)


@implements(PATCHIFY, "gpu")
class PatchifyGpu(PixelOperator):
    """One launch, in which each thread writes its pixels to their patches."""

    layouts = _LAYOUTS

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._patches = _patches(node)
        names = [argument.name for argument in _NORMALIZATION]
        self._tables = ArgumentCache(node, lambda batch: gains_and_offsets(batch.arguments(node)), names)

    def express(self, batch: Batch, pixels: PixelExpression) -> PixelExpression:
        layout = choose_layout(pixels.layout, pixels.ndim, _LAYOUTS)
        _, heights, widths = pixels.extents.T.tolist()
        each_sample(partial(_check_size, patches=self._patches), heights, widths)
        dtype = output_dtype(self.node)
        assert dtype is not None
        tables = [values[:, : len(for_channels(values[0], pixels.channels))] for values in self._tables.get(batch)]
        scale, bias = (values[0] if (values == values[0]).all() else values for values in tables)
        return pixels.named(layout).normalize(scale, bias, dtype).patches(self._patches)
