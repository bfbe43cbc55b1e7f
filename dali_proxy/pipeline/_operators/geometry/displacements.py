"""Operators that move each pixel by a formula: `water`, `sphere` and `jitter`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dali_proxy.pipeline._declaration import Argument, Input, Kind, OperatorSchema, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._imaging import convert
from dali_proxy.pipeline._imaging.filter2d import Border
from dali_proxy.pipeline._imaging.sampling import copied_by_opencv, copy_nearest, linear_at, nearest_at, nearest_pixels
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._kernels.point_maps import PointMap, shifts, sphere, waves
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.layouts import choose_layout
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator, Setup
from dali_proxy.pipeline._operator_api.output_specs import describe, layout_and_extents
from dali_proxy.pipeline._operator_api.pixel_operator import PixelOperator
from dali_proxy.pipeline._operators.geometry.windows import saturate
from dali_proxy.pipeline._rng import philox
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array
from dali_proxy.pipeline.types import DALIInterpType


def _declare(name: str, doc: str, *arguments: Argument) -> OperatorSchema:
    return declare_operator(
        name=name,
        random=name == "jitter",
        doc=doc,
        inputs=(Input("data", "Images, HWC."),),
        arguments=(
            *arguments,
            Argument("mask", Kind.INT, "0 returns the image unchanged.", 1, per_sample=True),
            Argument("fill_value", Kind.FLOAT, "Value outside of the image.", 0.0),
            Argument(
                "interp_type",
                Kind.INTERP,
                "INTERP_NN for the nearest pixel, or INTERP_LINEAR.",
                DALIInterpType.INTERP_NN,
            ),
        ),
        devices=("cpu", "gpu"),
    )


def _wave(kind: str, axis: str, default: float) -> Argument:
    names = {"ampl": "Amplitude in pixels", "freq": "Frequency in radians per pixel", "phase": "Phase in radians"}
    return Argument(f"{kind}_{axis}", Kind.FLOAT, f"{names[kind]} of the wave that moves pixels along {axis}.", default)


WATER = _declare(
    "water",
    """Distorts images by waves, as if they were under water.

The output at (x, y) is the input at x + ampl_x * sin(freq_x * y + phase_x), y + ampl_y * cos(freq_y * x + phase_y).""",
    *(
        _wave(kind, axis, default)
        for kind, default in (("ampl", 10.0), ("freq", 0.049087), ("phase", 0.0))
        for axis in "xy"
    ),
)
SPHERE = _declare(
    "sphere",
    """Distorts images as if they covered a sphere.

The output at distance d from the centre is the input at distance d * d / r in the same direction, where r is half of
the longer side.""",
)
JITTER = _declare(
    "jitter",
    "Takes each pixel from a random position, at most `nDegree` / 2 pixels away from it along x and along y.",
    Argument("nDegree", Kind.INT, "Width of the range of the random shifts, in pixels.", 2),
)


@dataclass(frozen=True)
class _State:
    """The arguments of a batch.

    Attributes:
        moved: whether to move the pixels of each sample, (N,).
        keys: keys of the random numbers of each sample, (N, 2) uint64; empty for operators that don't draw.
    """

    moved: Array
    keys: Array


def _moved(node: GraphNode, batch: Batch) -> Array:
    """Return whether to move the pixels of each sample, (N,)."""
    mask = batch.arguments(node).scalars("mask", np.int64)
    return mask != 0


def _takes_nearest(node: GraphNode) -> bool:
    found = node.argument("interp_type")
    if found not in (DALIInterpType.INTERP_NN, DALIInterpType.INTERP_LINEAR):
        raise ArgumentValueError(f"argument 'interp_type' must be INTERP_NN or INTERP_LINEAR, not {found!r}")
    return bool(found == DALIInterpType.INTERP_NN)


def _fill(node: GraphNode, dtype: np.dtype[Any]) -> float:
    return float(saturate(np.array([node.argument("fill_value")], np.float32), dtype)[0])


def _draw_keys(node: GraphNode, batch: Batch) -> Array:
    return batch.random_numbers(node).words((batch.size, 2))


class _Displacement(SampleOperator[_State]):
    """Computes a position for each pixel of the output."""

    #: Whether positions depend only on the size of the image.
    fixed: ClassVar[bool] = True

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        #: The pixels at the positions of the last image. The next image mostly has the same size.
        self._last: Array | None = None

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[_State, Sequence[OutputSpec]]:
        (data,) = inputs
        layout, known = layout_and_extents(batch, self.node, inputs, ("HWC",))
        return _State(_moved(self.node, batch), self.keys(batch)), [describe(layout, known, data.dtype)]

    def run(self, state: _State, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        (image,) = inputs
        if out is None:
            out = np.empty(image.shape, image.dtype)
        if not state.moved[sample] or not image.size:
            np.copyto(out, image)
            return out
        (height, width), fill, nearest = image.shape[:2], _fill(self.node, image.dtype), _takes_nearest(self.node)
        if self.fixed and nearest and copied_by_opencv(image, (height, width)):
            last = self._last
            if last is None or last.shape[:2] != (height, width):
                positions = self.positions(height, width, state, sample)
                last = self._last = nearest_pixels(positions, np.empty((height, width, 2), np.int16))
            return convert(copy_nearest(image, last, fill), image.dtype, out)
        sampled = nearest_at if nearest else linear_at
        return convert(sampled(image, self.positions(height, width, state, sample), fill), image.dtype, out)

    def keys(self, batch: Batch) -> Array:
        """Return the keys of the random numbers of each sample, if the operator draws any."""
        return np.zeros((0, 2), np.uint64)

    @abstractmethod
    def positions(self, height: int, width: int, state: _State, sample: int) -> tuple[Array, Array]:
        """Return the positions of all pixels along y and x; they broadcast to (height, width)."""


@implements(WATER, "cpu")
class WaterCpu(_Displacement):
    """Moves rows along x and columns along y."""

    def positions(self, height: int, width: int, state: _State, sample: int) -> tuple[Array, Array]:
        y, x = np.arange(height, dtype=np.float64)[:, None], np.arange(width, dtype=np.float64)
        argument = self.node.argument
        return (
            y + argument("ampl_y") * np.cos(argument("freq_y") * x + argument("phase_y")),
            x + argument("ampl_x") * np.sin(argument("freq_x") * y + argument("phase_x")),
        )


@implements(SPHERE, "cpu")
class SphereCpu(_Displacement):
    """Moves pixels along lines through the centre."""

    def positions(self, height: int, width: int, state: _State, sample: int) -> tuple[Array, Array]:
        radius = max(height // 2, width // 2, 1)
        y, x = np.arange(0.5, height)[:, None] - height / 2, np.arange(0.5, width) - width / 2
        factor = np.sqrt(x * x + y * y) / radius
        return height / 2 + factor * y, width / 2 + factor * x


@implements(JITTER, "cpu")
class JitterCpu(_Displacement):
    """Draws the positions of a sample with its own generator."""

    fixed = False

    def keys(self, batch: Batch) -> Array:
        return _draw_keys(self.node, batch)

    def positions(self, height: int, width: int, state: _State, sample: int) -> tuple[Array, Array]:
        generator = philox(state.keys[sample])
        shifts = (generator.random((2, height, width)) - 0.5) * self.node.argument("nDegree")
        return shifts[0] + np.arange(0.5, height)[:, None], shifts[1] + np.arange(0.5, width)


class _DisplacementGpu(PixelOperator):
    """Computes the positions in the kernel that reads the pixels."""

    traits = replace(PixelOperator.traits, planewise=True, gathers=True)

    def express(self, batch: Batch, pixels: PixelExpression) -> PixelExpression | None:
        layout = choose_layout(pixels.layout, pixels.ndim, ("HWC",))
        taps = 1 if _takes_nearest(self.node) else 2
        points = self.points(batch, _moved(self.node, batch), pixels.extents[:, 1:])
        fill = pixels.kept((_fill, self.node.index), lambda: _fill(self.node, pixels.dtype))
        size = pixels.extents[:, 1:]
        return pixels.named(layout).warp(points, size, pixels.dtype, taps=taps, border=Border.CONSTANT, fill=fill)

    @abstractmethod
    def points(self, batch: Batch, moved: Array, extents: Array) -> PointMap:
        """Return the positions of the pixels of each sample, for heights and widths, (N, 2)."""


@implements(WATER, "gpu")
class WaterGpu(_DisplacementGpu):
    """Moves rows along x and columns along y."""

    def points(self, batch: Batch, moved: Array, extents: Array) -> PointMap:
        pairs = ([self.node.argument(f"{kind}_{axis}") for axis in "yx"] for kind in ("ampl", "freq", "phase"))
        return waves(moved, *pairs)


@implements(SPHERE, "gpu")
class SphereGpu(_DisplacementGpu):
    """Moves pixels along lines through the centre."""

    def points(self, batch: Batch, moved: Array, extents: Array) -> PointMap:
        return sphere(moved, extents)


@implements(JITTER, "gpu")
class JitterGpu(_DisplacementGpu):
    """Draws the positions of each pixel from the sample's seed; they differ from those on the CPU."""

    traits = replace(_DisplacementGpu.traits, per_sample=False)  # it draws for the batch

    def points(self, batch: Batch, moved: Array, extents: Array) -> PointMap:
        seeds = _draw_keys(self.node, batch)[:, 0]
        return shifts(moved, seeds, self.node.argument("nDegree"), extents[:, 1])
