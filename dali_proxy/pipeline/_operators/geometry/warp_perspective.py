"""Warps images by perspective transforms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import cv2
import numpy as np

from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._imaging import convert
from dali_proxy.pipeline._imaging.filter2d import CV2_BORDERS, OPENCV_BORDERS
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._kernels.point_maps import perspective
from dali_proxy.pipeline._operator_api.arguments import map_once
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import allocate, each_sample, samples_of
from dali_proxy.pipeline._operator_api.image_axes import IMAGE_LAYOUTS
from dali_proxy.pipeline._operator_api.layouts import choose_layout
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator
from dali_proxy.pipeline._operator_api.output_dtype import check_samples
from dali_proxy.pipeline._operator_api.output_specs import Extents, describe, layout_and_extents
from dali_proxy.pipeline._operator_api.pixel_operator import PixelOperator
from dali_proxy.pipeline._operators.geometry.resize_launches import frames
from dali_proxy.pipeline._operators.geometry.windows import round_half_away
from dali_proxy.pipeline.errors import ArgumentValueError, PipelineError
from dali_proxy.pipeline.tensors.cpu import Array
from dali_proxy.pipeline.types import FLOAT, FLOAT64, INT16, INTERP_CUBIC, INTERP_LINEAR, INTERP_NN, UINT8, UINT16

_DTYPES = (UINT8, UINT16, INT16, FLOAT, FLOAT64)
_MOST_CHANNELS = 4
#: Dtypes that OpenCV interpolates linearly at exact positions; for others, and two channels, it rounds to 1 / 32 pixel.
_EXACT_DTYPES = (np.uint8, np.uint16, np.float32)
_FILTERS = {INTERP_NN: cv2.INTER_NEAREST, INTERP_LINEAR: cv2.INTER_LINEAR, INTERP_CUBIC: cv2.INTER_CUBIC}
_TAPS = {INTERP_NN: 1, INTERP_LINEAR: 2, INTERP_CUBIC: 4}

WARP_PERSPECTIVE = declare_operator(
    name="experimental.warp_perspective",
    doc="""Warps images or sequences by perspective transforms, as OpenCV's `warpPerspective` does.

The output at (x, y) is the input at (u / w, v / w), where (u, v, w) is the product of the matrix and (x, y, 1).""",
    inputs=(
        Input("data", f"Images or sequences, of one of the layouts {', '.join(IMAGE_LAYOUTS)}."),
        Input("mtx", "Alternative to `matrix`: float32 of shape (3, 3).", True, any_device=True),
    ),
    arguments=(
        Argument("matrix", Kind.FLOATS, "The transform, row by row: 9 values.", (), per_sample=True),
        Argument(
            "inverse_map",
            Kind.BOOL,
            "The transform maps the output to the input; False: the input to the output.",
            True,
        ),
        Argument(
            "size",
            Kind.FLOATS,
            "Height and width of the output, which are rounded; by default the input's.",
            (),
            per_sample=True,
        ),
        Argument(
            "pixel_origin",
            Kind.STRING,
            'Position (0, 0): the outer "corner" or the "center" of the first pixel.',
            "corner",
            choices=("corner", "center"),
        ),
        Argument("interp_type", Kind.INTERP, "INTERP_NN, INTERP_LINEAR or INTERP_CUBIC.", INTERP_LINEAR),
        Argument(
            "border_mode",
            Kind.STRING,
            'Values outside of the input: "constant" is `fill_value`, "replicate" the border pixel, "reflect" '
            'mirrors the image including the border pixel, "reflect_101" without it, and "wrap" continues at the '
            "other side.",
            "constant",
            choices=tuple(OPENCV_BORDERS),
        ),
        Argument("fill_value", Kind.FLOATS, "Values of a constant border: one, or one per channel; 0 by default.", ()),
    ),
    devices=("cpu", "gpu"),
)


#: From the corner of the first pixel to its center, and back.
_SHIFT = np.array([[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1]])
_BACK = np.array([[1, 0, -0.5], [0, 1, -0.5], [0, 0, 1]])


def _rounded(row: Array) -> tuple[int, ...]:
    if len(row) > 2 or not (row > 0).all():
        raise ArgumentValueError(f"argument 'size' must be two positive numbers, not {row.tolist()}")
    return tuple(round_half_away(extent) or 1 for extent in np.resize(row, 2 * bool(len(row))))


def _to_input(matrices: Sequence[Array], node: GraphNode) -> Array:
    """Return matrices from the output to the input, (N, 3, 3), for OpenCV, whose positions refer to centers."""
    stack: Array = np.array(matrices, np.float64).reshape(-1, 3, 3)
    if not node.argument("inverse_map"):
        inverses = [cv2.invert(each)[1] for each in stack]  # zeros for a singular matrix, as in warpPerspective
        stack = np.array(inverses).reshape(stack.shape)
    return _BACK @ stack @ _SHIFT if node.argument("pixel_origin") == "corner" else stack


@dataclass(frozen=True)
class _Warps:
    """The warps of a batch.

    Attributes:
        layout: layout of the samples.
        matrices: matrices as argument: 9 values for each sample, or none.
        sizes: height and width of each output; an empty tuple for the input's.
    """

    layout: str
    matrices: Sequence[Array]
    sizes: list[tuple[int, ...]]

    @classmethod
    def from_batch(cls, batch: Batch, node: GraphNode, layout: str) -> _Warps:
        if node.argument("interp_type") not in _FILTERS:
            raise ArgumentValueError(
                "argument 'interp_type' must be INTERP_NN, INTERP_LINEAR or INTERP_CUBIC, not "
                f"{node.argument('interp_type')!r}"
            )
        arguments = batch.arguments(node)
        matrices, sizes = arguments.rows("matrix", np.float32), arguments.rows("size", np.float32)
        return cls(layout, matrices, map_once(_rounded, sizes))

    @property
    def first(self) -> int:
        """The axis of the height."""
        return self.layout.index("H")

    def extents(self, known: Extents | None) -> Extents | None:
        """Return the known extents of the output, given the known extents of the samples."""
        if known is None:
            return None
        size: Sequence[int | None] = [None, None]
        if len(set(self.sizes)) == 1:
            size = self.sizes[0] or known[self.first : self.first + 2]
        return (*known[: self.first], *size, *known[self.first + 2 :])

    def matrix(self, sample: int, given: Array | None) -> Array:
        """Return a matrix as the user gave it."""
        if given is not None:
            if given.shape != (3, 3) or given.dtype != np.float32:
                raise ArgumentValueError(
                    f"the second input must be float32 of shape (3, 3), not {given.dtype} of shape {given.shape}"
                )
            if len(self.matrices[sample]):
                raise ArgumentValueError("argument 'matrix' can't be used together with the second input")
            return given
        row = self.matrices[sample]
        if len(row) != 9:
            raise ArgumentValueError(f"argument 'matrix' needs 9 values, but has {len(row)}")
        return row.reshape(3, 3)

    def size(self, sample: int, shape: Sequence[int]) -> tuple[int, ...]:
        """Return height and width of a sample's output."""
        size = self.sizes[sample] or tuple(shape[self.first : self.first + 2])
        if min(size) and not all(shape):
            raise PipelineError(f"can't warp an empty image of shape {tuple(shape)}")
        return size

    def for_frames(self, sample: int, shape: Sequence[int], given: Array | None) -> tuple[tuple[int, ...], list[Array]]:
        """Return height and width of a sample's output, and the given matrices: one for all frames or one for each."""
        size = self.size(sample, shape)
        frames = shape[0] if self.layout[0] == "F" else 1
        matrices = [given] if given is None or given.ndim == 2 else list(given)
        if len(matrices) not in (1, frames):
            raise ArgumentValueError(f"the second input has {len(matrices)} matrices for {frames} frames")
        return size, [self.matrix(sample, matrix) for matrix in matrices]


def _fill(node: GraphNode, channels: int, dtype: np.dtype[Any]) -> list[float]:
    """Return the fill value of each channel."""
    values = np.array(node.argument("fill_value") or (0,), np.float32)
    if len(values) not in (1, channels):
        raise ArgumentValueError(f"argument 'fill_value' needs 1 or {channels} values, but has {len(values)}")
    return np.resize(convert(values, dtype), channels).tolist()


@dataclass(frozen=True)
class _CpuState:
    """What all samples of a batch share on the CPU.

    Attributes:
        warps: the warps.
        matrices: matrices for OpenCV, one for each sample, if the argument `matrix` has them all.
        flags: OpenCV's interpolation and direction.
        border: OpenCV's border.
        fills: fill values by number of channels and dtype, as far as samples needed them.
    """

    warps: _Warps
    matrices: Array | None
    flags: int
    border: int
    fills: dict[tuple[int, np.dtype[Any]], list[float]] = field(default_factory=dict)


@implements(WARP_PERSPECTIVE, "cpu")
class WarpPerspectiveCpu(SampleOperator[_CpuState]):
    """Runs OpenCV for each image."""

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[_CpuState, Sequence[OutputSpec]]:
        layout, known = layout_and_extents(batch, self.node, inputs, IMAGE_LAYOUTS)
        warps = _Warps.from_batch(batch, self.node, layout)
        matrices = None
        if len(inputs) == 1 and all(len(row) == 9 for row in warps.matrices):
            matrices = _to_input(warps.matrices, self.node)
        flags = _FILTERS[self.node.argument("interp_type")] | cv2.WARP_INVERSE_MAP
        state = _CpuState(warps, matrices, flags, CV2_BORDERS[OPENCV_BORDERS[self.node.argument("border_mode")]])
        return state, [describe(layout, warps.extents(known), inputs[0].dtype)]

    def run(self, state: _CpuState, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        data, warps = inputs[0], state.warps
        check_samples(data.dtype, _DTYPES)
        first, layout = warps.first, warps.layout
        if state.matrices is None:
            size, given = warps.for_frames(sample, data.shape, inputs[1] if len(inputs) > 1 else None)
            matrices = _to_input(given, self.node)
        else:
            size, matrices = warps.size(sample, data.shape), state.matrices[sample : sample + 1]
        if out is None:
            out = np.empty((*data.shape[:first], *size, *data.shape[first + 2 :]), data.dtype)
        if not out.size:
            return out
        channels = data.shape[layout.index("C")] if "C" in layout else 1
        fill = state.fills.get((channels, data.dtype))
        if fill is None:
            fill = state.fills[channels, data.dtype] = _fill(self.node, channels, data.dtype)
        if not first:
            self._warp(data, matrices[0], state, fill, out)
            return out
        for index in np.ndindex(*data.shape[:first]):
            matrix = matrices[index[0] if len(matrices) > 1 else 0]
            plane = fill[index[-1] : index[-1] + 1] if "C" in layout[:first] else fill
            self._warp(data[index], matrix, state, plane, out[index])
        return out

    def _warp(self, image: Array, matrix: Array, state: _CpuState, fill: list[float], out: Array) -> None:
        height, width = out.shape[:2]
        image, target = image.reshape(*image.shape[:2], -1), out.reshape(height, width, -1)
        for first in range(0, image.shape[2], _MOST_CHANNELS):
            part = slice(first, first + _MOST_CHANNELS)
            written = target[..., part]
            if written.shape[2] == 1:
                written = written[..., 0]
            warped = cv2.warpPerspective(
                np.ascontiguousarray(image[..., part]),
                matrix,
                (width, height),
                written if written.flags.c_contiguous else None,
                flags=state.flags,
                borderMode=state.border,
                borderValue=fill[part],
            )
            if warped is not written:
                written[...] = warped


@implements(WARP_PERSPECTIVE, "gpu")
class WarpPerspectiveGpu(PixelOperator):
    """One launch per batch. Waits for matrices on the GPU."""

    traits = replace(PixelOperator.traits, planewise=True, gathers=True)

    def express(self, batch: Batch, pixels: PixelExpression) -> PixelExpression | None:
        given = [batch.values[edge] for edge in self.node.inputs[1:]]
        if any(each.ndim > 2 for each in given):
            return None
        layout = choose_layout(pixels.layout, pixels.ndim, IMAGE_LAYOUTS)
        warps = _Warps.from_batch(batch, self.node, layout)
        sizes, matrices = self._resolve(warps, pixels.shapes, self.on_host(given[0], batch) if given else None)
        return self._warp(pixels.named(layout), sizes, [each[0] for each in matrices])

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        """Do the same for sequences with a matrix for each frame."""
        if len(inputs) < 2 or inputs[1].ndim < 3:
            return super().run(batch, inputs)
        data = inputs[0]  # with a matrix for each frame
        source, layout = samples_of(data), choose_layout(data.layout(), data.ndim, IMAGE_LAYOUTS)
        sequence = layout[0] == "F"
        images, owners = frames(source, int(sequence))
        inner = layout[sequence:]
        pixels = PixelExpression.from_samples(images, inner if len(inner) == images.ndim else inner + "C", data)
        if pixels is None:
            return super().run(batch, inputs)
        warps = _Warps.from_batch(batch, self.node, layout)
        sizes, matrices = self._resolve(warps, source.shapes, self.on_host(inputs[1], batch))
        shapes = source.shapes.copy()
        shapes[:, warps.first : warps.first + 2] = sizes
        output, target = allocate(shapes, source.dtype, layout)
        counts = source.shapes[:, 0] if sequence else np.ones(len(source), np.int64)
        of_frames = [
            matrix
            for each, count in zip(matrices, counts.tolist(), strict=True)
            for matrix in (each if len(each) == count else each * count)
        ]
        warped = self._warp(pixels, sizes[owners], of_frames)
        self.kernels.run(warped.launch(frames(target, int(sequence))[0]), batch.stream)
        return [output]

    def _resolve(self, warps: _Warps, shapes: Array, given: Sequence[Array] | None) -> tuple[Array, list[list[Array]]]:
        """Return the size of each output, (N, 2), and the matrices of each sample: one, or one for each frame."""
        if given is None and shapes.all() and all(len(row) == 9 for row in warps.matrices):
            extents = shapes[:, warps.first : warps.first + 2]
            if any(warps.sizes):
                extents = np.array([size or own for size, own in zip(warps.sizes, extents.tolist(), strict=True)])
            return extents, [[row.reshape(3, 3)] for row in warps.matrices]
        matrices_of: Sequence[Array | None] = [None] * len(shapes) if given is None else given
        found = each_sample(warps.for_frames, range(len(shapes)), shapes.tolist(), matrices_of)
        sizes, matrices = zip(*found, strict=True)
        return np.array(sizes, np.int64), list(matrices)

    def _warp(self, pixels: PixelExpression, sizes: Array, matrices: Sequence[Array]) -> PixelExpression:
        check_samples(pixels.dtype, _DTYPES)
        taps = _TAPS[self.node.argument("interp_type")]
        two = pixels.channels == 2 and pixels.order[-1] == "C"
        rounds = taps == 2 and (two or pixels.dtype not in _EXACT_DTYPES)
        return pixels.warp(
            perspective(_to_input(matrices, self.node), 1 if taps == 1 else 32 if rounds else 0),
            sizes,
            pixels.dtype,
            taps=taps,
            border=OPENCV_BORDERS[self.node.argument("border_mode")],
            fill=_fill(self.node, pixels.channels, pixels.dtype),
        )
