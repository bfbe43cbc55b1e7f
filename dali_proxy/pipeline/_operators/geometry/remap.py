"""Moves pixels to arbitrary positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import cv2
import numpy as np

from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._imaging import convert
from dali_proxy.pipeline._imaging.filter2d import Border
from dali_proxy.pipeline._imaging.sampling import LARGEST, linear_at, nearest_at
from dali_proxy.pipeline._kernels import Samples
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._kernels.point_maps import stored
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.layouts import choose_layout
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator
from dali_proxy.pipeline._operator_api.output_specs import describe, known_extents
from dali_proxy.pipeline._operator_api.pixel_operator import PixelOperator
from dali_proxy.pipeline.errors import ArgumentValueError, PipelineError
from dali_proxy.pipeline.tensors.cpu import Array
from dali_proxy.pipeline.tensors.gpu import TensorListGPU
from dali_proxy.pipeline.types import INTERP_CUBIC, INTERP_LANCZOS3, INTERP_LINEAR, INTERP_NN

_MOST_CHANNELS = 4
_OPENCV = (np.uint8, np.uint16, np.int16, np.float32)

REMAP = declare_operator(
    name="experimental.remap",
    doc="""Computes images from positions in other images: the output at (x, y) is the input at (mapx, mapy).

The output is as large as the maps. Pixels outside of the input are 0.""",
    inputs=(
        Input("data", "Images or sequences, HWC or FHWC."),
        Input("mapx", "Horizontal positions: float32, HW or HWC with one channel; for sequences also FHW or FHWC."),
        Input("mapy", "Vertical positions, of the same shape as `mapx`."),
    ),
    arguments=(
        Argument(
            "interp",
            Kind.INTERP,
            "INTERP_NN, INTERP_LINEAR, INTERP_CUBIC, or INTERP_LANCZOS3 for OpenCV's Lanczos filter.",
            INTERP_LINEAR,
        ),
        Argument(
            "pixel_origin",
            Kind.STRING,
            'Position (0, 0): the outer "corner" or the "center" of the first pixel.',
            "corner",
            choices=("corner", "center"),
        ),
    ),
    devices=("cpu", "gpu"),
)

_TAPS = {INTERP_NN: 1, INTERP_LINEAR: 2, INTERP_CUBIC: 4, INTERP_LANCZOS3: 8}
_LANCZOS = 8


def _taps(node: GraphNode) -> int:
    """Return the width of the filter in pixels."""
    found = node.argument("interp")
    if found not in _TAPS:
        raise ArgumentValueError(
            f"argument 'interp' must be INTERP_NN, INTERP_LINEAR, INTERP_CUBIC or INTERP_LANCZOS3, not {found!r}"
        )
    return _TAPS[found]


@implements(REMAP, "cpu")
class RemapCpu(SampleOperator[bool]):
    """Computes one image at a time. The state says whether samples are sequences."""

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[bool, Sequence[OutputSpec]]:
        known, maps = (known_extents(batch, self.node, inputs, position) for position in (0, 1))
        layout = choose_layout(inputs[0].layout, None if known is None else len(known), ("HWC", "FHWC"))
        sequence = layout[0] == "F"
        _taps(self.node)
        extents = None
        if known is not None and maps is not None:
            # Maps have the axes F and C or not; the spatial axes are found when the maps are read.
            extents = (*known[:sequence], *(maps if len(maps) == 2 else (None, None)), known[-1])
        return sequence, [describe(layout, extents, inputs[0].dtype)]

    def run(self, state: bool, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        data, *maps = inputs
        images = data if state else data[None]
        positions = [self._maps(name, each, len(images), state) for name, each in zip("xy", maps, strict=True)]
        if positions[0].shape != positions[1].shape:
            raise ArgumentValueError(f"the maps have different shapes: {maps[0].shape} and {maps[1].shape}")
        shape = (len(images), *positions[0].shape[1:], data.shape[-1])
        if out is None:
            out = np.empty(shape if state else shape[1:], data.dtype)
        if not out.size:
            return out
        if not data.size:
            raise PipelineError(f"can't move the pixels of an empty image of shape {data.shape}")
        for index, (image, target) in enumerate(zip(images, out if state else out[None], strict=True)):
            x, y = (each[index if len(each) > 1 else 0] for each in positions)
            self._move(image, x, y, target)
        return out

    def _maps(self, name: str, maps: Array, frames: int, sequence: bool) -> Array:
        """Return the maps of a sample, (frames, height, width), or (1, height, width) for all frames."""
        if maps.dtype != np.float32:
            raise ArgumentValueError(f"map{name} must be float32, not {maps.dtype}")
        found = maps
        if found.ndim == 4 or (found.ndim == 3 and found.shape[2] == 1 and not (sequence and len(found) == frames)):
            if found.shape[-1] != 1:
                raise ArgumentValueError(f"map{name} must have one channel, but its shape is {maps.shape}")
            found = found[..., 0]
        found = found[None] if found.ndim == 2 else found
        if found.ndim != 3 or len(found) not in (1, frames):
            raise ArgumentValueError(f"map{name} of shape {maps.shape} doesn't fit {frames} image{'s' * (frames > 1)}")
        return found

    def _move(self, image: Array, x: Array, y: Array, out: Array) -> None:
        interpolation = self.node.argument("interp")
        corner = self.node.argument("pixel_origin") == "corner"
        exact = image.dtype in (np.uint8, np.uint16, np.float32) and image.shape[2] in (1, 3, 4)
        if interpolation == INTERP_LINEAR and exact and max(*image.shape, *x.shape) <= LARGEST:
            shift = np.float32(0.5 if corner else 0.0)
            kind, border = cv2.INTER_LINEAR, cv2.BORDER_CONSTANT
            moved = cv2.remap(
                np.ascontiguousarray(image), x - shift, y - shift, kind, borderMode=border, hint=cv2.ALGO_HINT_ACCURATE
            )
            out[...] = moved.reshape(out.shape)
            return
        if interpolation in (INTERP_NN, INTERP_LINEAR):  # exact positions; OpenCV rounds them to 1 / 32
            shift = 0.0 if corner else 0.5
            sampled = nearest_at if interpolation == INTERP_NN else linear_at
            convert(sampled(image, [y + np.float64(shift), x + np.float64(shift)], 0.0), out.dtype, out)
            return
        shift = 0.5 if corner else 0.0
        work = image if image.dtype in _OPENCV else image.astype(np.float32)
        kind = cv2.INTER_CUBIC if interpolation == INTERP_CUBIC else cv2.INTER_LANCZOS4
        for first in range(0, image.shape[2], _MOST_CHANNELS):
            part = np.ascontiguousarray(work[..., first : first + _MOST_CHANNELS])
            moved = cv2.remap(part, x - np.float32(shift), y - np.float32(shift), kind, borderMode=cv2.BORDER_CONSTANT)
            convert(moved.reshape(*x.shape, -1), out.dtype, out[..., first : first + _MOST_CHANNELS])


@implements(REMAP, "gpu")
class RemapGpu(PixelOperator):
    """Reads the maps in the kernel that reads the pixels."""

    traits = replace(PixelOperator.traits, planewise=True, gathers=True)

    def express(self, batch: Batch, pixels: PixelExpression) -> PixelExpression | None:
        layout = choose_layout(pixels.layout, pixels.ndim, ("HWC", "FHWC"))
        maps: list[Any] = [batch.values[edge] for edge in self.node.inputs[1:]]
        if not all(isinstance(each, TensorListGPU) for each in maps):
            return None
        taps, frames = _taps(self.node), pixels.extents[:, 0]
        x, y = (
            _map_samples(name, each.table(), frames, layout[0] == "F") for name, each in zip("xy", maps, strict=True)
        )
        if (x.shapes != y.shapes).any():
            sample = int((x.shapes != y.shapes).any(axis=1).argmax())
            shapes = (tuple(each.table().shapes[sample].tolist()) for each in maps)
            raise ArgumentValueError("the maps have different shapes: {} and {}".format(*shapes))
        if not (pixels.extents.all(axis=1) | ~x.shapes.all(axis=1)).all():
            raise PipelineError("can't move the pixels of an empty image")
        shift = 0.5 if self.node.argument("pixel_origin") == "center" else 0.0
        return pixels.named(
            layout
        ).warp(
            stored(y, x, shift, 32 if taps == _LANCZOS else 1, *maps),  # as on the CPU
            x.shapes[:, 1:],
            pixels.dtype,
            taps=taps,
            border=Border.CONSTANT,
        )


def _map_samples(name: str, maps: Samples, frames: Array, sequence: bool) -> Samples:
    """Return the maps of a batch, (frames, height, width) or (1, height, width); see `RemapCpu`."""
    if maps.dtype != np.float32 or not 2 <= maps.ndim <= 4:
        raise ArgumentValueError(f"map{name} must be float32 of 2 to 4 dimensions, not {maps.dtype} of {maps.ndim}")
    shapes, strides = maps.shapes, maps.strides  # of frames, rows, columns, channels
    if maps.ndim < 4:
        front = np.full(len(maps), maps.ndim == 2)
        if maps.ndim == 3:
            front = (shapes[:, 2] == 1) & ~(sequence & (shapes[:, 0] == frames))
        shapes, strides = _widened(shapes, 1, front), _widened(strides, 0, front)
    fits = (shapes[:, 3] == 1) & ((shapes[:, 0] == 1) | (shapes[:, 0] == frames))
    if not fits.all():
        sample = int(np.argmin(fits))
        raise ArgumentValueError(
            f"map{name} of shape {tuple(maps.shapes[sample].tolist())} doesn't fit {frames[sample]} images, or has "
            "several channels"
        )
    return Samples(maps.pointers, shapes[:, :3], strides[:, :3], maps.dtype)


def _widened(table: Array, value: int, front: Array) -> Array:
    """Return shapes or strides with 4 columns: the first new one is in front, (N,), the others are at the end."""
    after, before = np.full((2, len(table), 4), value, np.int64)
    after[:, : table.shape[1]] = table
    before[:, 1 : 1 + table.shape[1]] = table
    return np.where(front[:, None], before, after)
