"""Pastes images onto larger canvases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import REQUIRED, Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._operator_api.arguments import Arguments
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.layouts import choose_layout
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator
from dali_proxy.pipeline._operator_api.output_specs import describe, known_extents
from dali_proxy.pipeline._operators.geometry.gpu_windows import GpuWindows, WindowGpu
from dali_proxy.pipeline._operators.geometry.windows import cut
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array

PASTE = declare_operator(
    name="paste",
    doc="Pastes images onto larger canvases of one colour.",
    inputs=(Input("data", "Images, HWC."),),
    arguments=(
        Argument("ratio", Kind.FLOAT, "Ratio of the canvas' extents to the image's; 1 or more.", REQUIRED, True),
        Argument("fill_value", Kind.INTS, "Colour of the canvas: one value, or `n_channels`.", REQUIRED),
        Argument("n_channels", Kind.INT, "Channels of the colour.", 3),
        Argument("paste_x", Kind.FLOAT, "Horizontal position, from 0 (left) to 1 (right).", 0.5, True),
        Argument("paste_y", Kind.FLOAT, "Vertical position, from 0 (top) to 1 (bottom).", 0.5, True),
        Argument("min_canvas_size", Kind.FLOAT, "Smallest extent of the canvas in pixels.", 0.0, True),
    ),
    devices=("cpu", "gpu"),
)


@dataclass(frozen=True)
class _Canvases:
    """Canvases of a batch, as windows that are larger than the images.

    Attributes:
        layout: layout of the images.
        fill: colour of the canvases.
        ratio: ratios of the canvases' extents to the images', (N,) float32.
        positions: vertical and horizontal positions, (N, 2) float32.
        least: smallest extents of the canvases, (N,) float32.
    """

    layout: str
    fill: tuple[int, ...]
    ratio: Array
    positions: Array
    least: Array

    @classmethod
    def from_arguments(cls, arguments: Arguments, layout: str, ndim: int | None) -> _Canvases:
        """Return the canvases of a batch.

        Raises:
            ArgumentValueError: Values are out of range.
        """
        fill, channels = arguments.constant("fill_value"), arguments.constant("n_channels")
        if len(fill) not in (1, channels):
            raise ArgumentValueError(f"argument 'fill_value' needs 1 or {channels} values, but has {len(fill)}")
        names = ("ratio", "paste_y", "paste_x", "min_canvas_size")
        ratio, y, x, least = (arguments.vectors(name, 1, np.float32) for name in names)
        positions = np.concatenate([y, x], axis=1)
        if not (ratio >= 1).all():
            raise ArgumentValueError(f"ratio of less than 1 is not supported: {ratio.min():g}")
        if not ((positions >= 0) & (positions <= 1)).all():
            raise ArgumentValueError("paste_x and paste_y must be in range [0, 1]")
        return cls(choose_layout(layout, ndim, ("HWC",)), fill, ratio[:, 0], positions, least[:, 0])

    def locate(self, shapes: Array, samples: slice = slice(None)) -> tuple[Array, Array]:
        """Return starts (relative to the images) and extents of the canvases of samples of these shapes, (N, 3)."""
        extents = shapes[:, :2].astype(np.float32)
        ratio, least = self.ratio[samples, None], self.least[samples, None]
        canvas = np.maximum(np.trunc(extents * ratio), np.trunc(least))
        starts, sizes = np.zeros_like(shapes), shapes.copy()
        starts[:, :2] = -np.trunc(self.positions[samples] * (canvas - extents))
        sizes[:, :2] = canvas
        return starts, sizes

    def colour(self, channels: int) -> tuple[int, ...]:
        """Return the fill values for `channels` channels.

        Raises:
            ArgumentValueError: There are fewer fill values.
        """
        if len(self.fill) > 1 and len(self.fill) < channels:
            raise ArgumentValueError(
                f"the image has {channels} channels, but argument 'fill_value' has {len(self.fill)}"
            )
        return self.fill if len(self.fill) == 1 else self.fill[:channels]


@implements(PASTE, "cpu")
class PasteCpu(SampleOperator[_Canvases]):
    """Fills the canvas, then copies the image."""

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[_Canvases, Sequence[OutputSpec]]:
        known = known_extents(batch, self.node, inputs)
        ndim = None if known is None else len(known)
        canvases = _Canvases.from_arguments(batch.arguments(self.node), inputs[0].layout, ndim)
        extents = None if known is None else (None, None, known[2])
        return canvases, [describe(canvases.layout, extents, inputs[0].dtype)]

    def run(self, state: _Canvases, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        (image,) = inputs
        starts, extents = state.locate(np.array([image.shape]), slice(sample, sample + 1))
        start, extent = starts[0].tolist(), extents[0].tolist()
        return cut(image, start, extent, policy="pad", fill=state.colour(image.shape[2]), out=out)


@implements(PASTE, "gpu")
class PasteGpu(WindowGpu):
    """Cuts the canvases out of the images."""

    def windows(
        self, batch: Batch, layout: str, shapes: Array, dtype: np.dtype[Any], bounds: Sequence[Any]
    ) -> GpuWindows:
        canvases = _Canvases.from_arguments(batch.arguments(self.node), layout, shapes.shape[1])
        fill = canvases.colour(int(shapes[:, 2].max()))
        return GpuWindows(*canvases.locate(shapes), "pad", fill, canvases.layout, channel_axis=2)
