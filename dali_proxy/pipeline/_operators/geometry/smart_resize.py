"""Resizes images to multiples of a patch, with a limited number of pixels, as vision-language models do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dali_proxy.pipeline._arrays import Float64s, Int64s
from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._imaging.patches import smart_sizes
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operators.geometry.resize import FILTER_ARGUMENTS, resizes
from dali_proxy.pipeline._operators.geometry.resize_arguments import Geometry, Resized, ResizedBatch, solve_each
from dali_proxy.pipeline.errors import ArgumentValueError, PipelineError

_MODES = ("nearest", "largest")

SMART_RESIZE = declare_operator(
        name="smart_resize",
        doc="""Resizes images so that height and width are multiples of `factor`, and the number of pixels is limited.

The aspect ratio is kept as far as possible. With `interp_type=types.INTERP_CUBIC`, this is the resize of the Qwen-VL
models (mode "nearest") and of SigLIP 2 NaFlex (mode "largest"). DALI has no such operator.""",
        inputs=(Input("data", "Images or sequences, HWC, CHW, FHWC, FCHW or CFHW; HWC without a layout."),),
        arguments=(
            Argument("factor", Kind.INT, "Heights and widths are multiples of it.", 28),
            Argument(
                "min_pixels", Kind.INT, "Smallest number of pixels; mode 'largest' ignores it.", 56 * 56,
                per_sample=True,
            ),
            Argument("max_pixels", Kind.INT, "Largest number of pixels.", 1280 * 28 * 28, per_sample=True),
            Argument(
                "mode",
                Kind.STRING,
                "'nearest' rounds the sides of the image, and scales it only if it then has too few or too many "
                "pixels; 'largest' scales it to the largest size within `max_pixels`, with the sides rounded up.",
                "nearest",
                choices=_MODES,
            ),
            *FILTER_ARGUMENTS,
        ),
        devices=("cpu", "gpu"),
    )  # fmt: skip


@resizes(SMART_RESIZE)
@dataclass(frozen=True)
class SmartGeometry(Geometry):
    """Sizes that are multiples of a factor, of whole images.

    Attributes:
        factor: the factor.
        least: smallest number of pixels of each sample, (N,).
        most: largest number of pixels of each sample, (N,).
        largest: see `smart_sizes`.
    """

    factor: int
    least: Float64s
    most: Float64s
    largest: bool

    drawn: ClassVar[bool] = False

    @classmethod
    def from_batch(cls, node: GraphNode, batch: Batch, axes: str) -> SmartGeometry:
        if axes != "HW":
            raise ArgumentValueError("volumes can't be divided into patches: the layout must have H and W, but no D")
        arguments, factor = batch.arguments(node), node.argument("factor")
        least, most = arguments.scalars("min_pixels"), arguments.scalars("max_pixels")
        if factor < 1:
            raise ArgumentValueError(f"argument 'factor' must be 1 or more, not {factor}")
        if (least > most).any() or (most < factor**2).any():
            sample = int(np.argmax((least > most) | (most < factor**2)))
            raise ArgumentValueError(
                f"'max_pixels' is {most[sample]:.0f} for sample {sample}: it must be at least 'min_pixels', "
                f"{least[sample]:.0f}, and a square of 'factor', {factor**2}"
            )
        return cls(factor, least, most, node.argument("mode") == "largest")

    @property
    def fixed_size(self) -> tuple[int, ...] | None:
        return None

    def solve(self, sample: int, extents: Sequence[int]) -> Resized:
        limits = self.least[sample], self.most[sample]
        try:
            (size,) = smart_sizes(np.array([extents]), self.factor, *limits, largest=self.largest).tolist()
        except ValueError as error:
            height, width = extents
            raise PipelineError(
                f"an image of {height} x {width} can't be resized to patches: the sides must differ by a factor of at "
                "most 200"
            ) from error
        return Resized(tuple(size), (0.0, 0.0), (float(extents[0]), float(extents[1])), True)

    def solve_all(self, extents: Int64s) -> ResizedBatch:
        try:
            sizes = smart_sizes(extents, self.factor, self.least, self.most, largest=self.largest)
        except ValueError:
            return solve_each(self.solve, extents)
        ends = extents.astype(np.float64)
        return ResizedBatch(sizes, np.zeros_like(ends), ends)
