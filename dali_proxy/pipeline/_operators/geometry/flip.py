"""Mirrors images, volumes and sequences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import cv2
import numpy as np

from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._imaging.native import compiled
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._kernels.pixel_choices import PixelChoices
from dali_proxy.pipeline._operator_api.arguments import Arguments
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.layouts import FLIP_LAYOUTS, choose_layout
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator
from dali_proxy.pipeline._operator_api.output_specs import describe, layout_and_extents
from dali_proxy.pipeline._operator_api.pixel_operator import PixelOperator
from dali_proxy.pipeline.tensors.cpu import Array

FLIP = declare_operator(
    name="flip",
    doc="Mirrors samples along the chosen dimensions.",
    inputs=(Input("data", f"Images, of one of the layouts {', '.join(FLIP_LAYOUTS)}; HWC without a layout."),),
    arguments=(
        Argument("horizontal", Kind.INT, "Nonzero swaps left and right.", 1, per_sample=True),
        Argument("vertical", Kind.INT, "Nonzero swaps top and bottom.", 0, per_sample=True),
        Argument("depthwise", Kind.INT, "Nonzero swaps front and back of a volume.", 0, per_sample=True),
    ),
    devices=("cpu", "gpu"),
)

_OPENCV_TYPES = (np.uint8, np.uint16, np.int16, np.int32, np.float32, np.float64)
_ARGUMENTS = {"H": "vertical", "W": "horizontal", "D": "depthwise"}


def _flips(arguments: Arguments, batch_size: int, layout: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return a mask of the flipped axes of each sample, (N, ndim)."""
    flips = np.zeros((batch_size, len(layout)), np.bool_)
    for letter, name in _ARGUMENTS.items():
        if letter in layout:
            values = arguments.scalars(name)
            flips[:, layout.index(letter)] = values != 0
    return flips


@dataclass(frozen=True)
class _State:
    layout: str
    flips: list[list[bool]]


@implements(FLIP, "cpu")
class FlipCpu(SampleOperator[_State]):
    """Passes a sample on if no axis is flipped."""

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[_State, Sequence[OutputSpec]]:
        (data,) = inputs
        layout, known = layout_and_extents(batch, self.node, inputs, FLIP_LAYOUTS)
        flips: list[list[bool]] = _flips(batch.arguments(self.node), batch.size, layout).tolist()
        return _State(layout, flips), [describe(layout, known, data.dtype)]

    def run(self, state: _State, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        (data,) = inputs
        flips = state.flips[sample]
        if not any(flips):
            if out is None:
                return data
            np.copyto(out, data)
            return out
        if out is None:
            out = np.empty(data.shape, data.dtype)
        mirrors = compiled is not None and flips[state.layout.index("W")] and out.flags.c_contiguous and data.size
        turned = [flip and not (mirrors and letter == "W") for letter, flip in zip(state.layout, flips, strict=True)]
        source = data[tuple([slice(None, None, -1 if flip else 1) for flip in turned])] if any(turned) else data
        if compiled is not None and mirrors:
            # NumPy's innermost loop would run along the channels.
            width = state.layout.index("W")
            channels = math.prod(data.shape[width + 1 :])
            source = np.ascontiguousarray(source)
            if 1 < channels <= 4 and data.dtype in _OPENCV_TYPES:
                rows = -1, data.shape[width], channels
                cv2.flip(source.reshape(rows), 1, dst=out.reshape(rows))
            else:
                compiled.mirror(source, out, data.shape[width], channels)
        else:
            np.copyto(out, source)
        return out


def _flipped(pixels: PixelExpression, flips: Array, layout: str) -> PixelExpression:
    pixels = pixels.named(layout)
    flips = pixels.along_extents(flips, 0)
    return pixels.window(np.where(flips, pixels.extents - 1, 0), np.where(flips, -1, 1), pixels.extents)


@cache
def _bits(layout: str) -> Array:
    """Return a different power of two for each axis that can be flipped, (ndim,), and 0 for the others."""
    return np.array([1 << "HWD".index(letter) if letter in _ARGUMENTS else 0 for letter in layout])


def _all_flips(pixels: PixelExpression, layout: str) -> PixelChoices:
    """Return all combinations of flips, in the order of the sums of their bits."""
    bits = _bits(layout)
    numbers = range(int(bits.sum()) + 1)
    shape = len(pixels), len(layout)
    return PixelChoices(
        [_flipped(pixels, np.broadcast_to(number & bits != 0, shape), layout) for number in numbers], pixels
    )


@implements(FLIP, "gpu")
class FlipGpu(PixelOperator):
    """Reads the pixels in the opposite order."""

    traits = replace(PixelOperator.traits, planewise=True)
    layouts = FLIP_LAYOUTS

    def express(self, batch: Batch, pixels: PixelExpression) -> PixelExpression | None:
        layout = choose_layout(pixels.layout, pixels.ndim, FLIP_LAYOUTS)
        flips = _flips(batch.arguments(self.node), batch.size, layout)
        if not pixels.recurs:
            return _flipped(pixels, flips, layout)
        choices = pixels.kept(self, lambda: _all_flips(pixels, layout))
        return choices.choose(np.dot(flips, _bits(layout)), pixels)
