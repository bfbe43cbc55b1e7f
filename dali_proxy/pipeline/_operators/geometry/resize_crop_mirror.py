"""Resizes, crops and mirrors in one step; computes only the pixels that the crop keeps."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from dali_proxy.pipeline._arrays import Int64s
from dali_proxy.pipeline._cached_property import cached_property
from dali_proxy.pipeline._declaration import Argument, Input, Kind, OperatorSchema, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._kernels.pixel_choices import PixelChoices
from dali_proxy.pipeline._operator_api.arguments import Arguments
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.operator import Setup
from dali_proxy.pipeline._operators.geometry.crop_arguments import CROP_ARGUMENTS, CropWindows
from dali_proxy.pipeline._operators.geometry.resize import FILTER_ARGUMENTS, ResizeCpu, ResizeGpu
from dali_proxy.pipeline._operators.geometry.resize_arguments import (
    RESIZE_ARGUMENTS,
    Resized,
    ResizedBatch,
    ResizeGeometry,
)
from dali_proxy.pipeline._operators.geometry.resize_launches import Filters
from dali_proxy.pipeline.tensors.cpu import Array

#: The bit of `mirror` that flips each axis.
_BITS = {"W": 1, "H": 2, "D": 4}
#: The bits of `mirror` that flip images.
_ALL_BITS = _BITS["W"] | _BITS["H"]


def _declare(name: str, doc: str, antialias: bool, deprecated: str | None = None) -> OperatorSchema:
    filters = tuple(
        Argument(each.name, each.kind, each.doc, antialias) if each.name == "antialias" else each
        for each in FILTER_ARGUMENTS
    )
    mirror = Argument(
        "mirror", Kind.INT, "Sum of 1 (flip the width), 2 (flip the height) and 4 (flip the depth).", 0, per_sample=True
    )
    return declare_operator(
        name,
        f"{doc}\n\nWhere a window exceeds the resized image, the edge pixels of the image are repeated.",
        (Input("data", "Images, volumes or sequences, as for `resize`."),),
        (*RESIZE_ARGUMENTS, *filters, *CROP_ARGUMENTS, mirror),
        devices=("cpu", "gpu"),
        deprecated=deprecated,
    )


RESIZE_CROP_MIRROR = _declare("resize_crop_mirror", "Computes `resize`, `crop` and `flip` in one step.", True)
FAST_RESIZE_CROP_MIRROR = _declare(
    "fast_resize_crop_mirror",
    "Computes `resize_crop_mirror`, by default without antialiasing. Deprecated in DALI.",
    False,
    " Use `nvidia.dali.fn.resize_crop_mirror` instead.",
)


class CroppedGeometry(ResizeGeometry):
    """Sizes and regions of windows of resized samples; arguments as in `ResizeGeometry`."""

    def __init__(self, arguments: Arguments, batch_size: int, axes: str) -> None:
        super().__init__(arguments, batch_size, axes)
        self._windows = CropWindows(arguments, batch_size, axes)
        mirror = arguments.scalars("mirror", np.int64)
        self._mirror: list[int] = mirror.tolist()

    @cached_property
    def fixed_size(self) -> tuple[int, ...] | None:
        known = self._windows.extents(super().fixed_size or (None,) * len(self._axes))
        if known is None:
            return None
        size = tuple(extent for extent in known if extent is not None)
        return size if len(size) == len(known) else None

    def solve(self, sample: int, extents: Sequence[int]) -> Resized:
        resized = super().solve(sample, extents)
        start, size = self._windows.locate(sample, resized.size)
        low, high = [], []
        for axis, letter in enumerate(self._axes):
            step = (resized.high[axis] - resized.low[axis]) / resized.size[axis]
            begin = resized.low[axis] + start[axis] * step
            end = begin + size[axis] * step
            if self._mirror[sample] & _BITS[letter]:
                begin, end = end, begin
            low.append(begin)
            high.append(end)
        unchanged = resized.whole and tuple(size) == resized.size and not self._mirror[sample]
        return Resized(tuple(size), tuple(low), tuple(high), unchanged)

    def solve_all(self, extents: Int64s) -> ResizedBatch:
        return _mirrored(self.cropped(extents), np.array(self._mirror), self._axes)

    def cropped(self, extents: Int64s) -> ResizedBatch:
        """Return `solve_all` of images that aren't mirrored."""
        resized = super().solve_all(extents)
        start, size = self._windows.locate_all(resized.size)
        step = (resized.high - resized.low) / resized.size
        begin = resized.low + start * step
        return ResizedBatch(size, begin, begin + size * step)


def _mirrored(regions: ResizedBatch, mirror: Array, axes: str) -> ResizedBatch:
    """Return regions mirrored along the axes whose bits are set in `mirror`, (N,)."""
    mirrored = (mirror[:, None] & [_BITS[letter] for letter in axes]) != 0
    low, high = regions.low, regions.high
    return ResizedBatch(regions.size, np.where(mirrored, high, low), np.where(mirrored, low, high))


@implements(RESIZE_CROP_MIRROR, "cpu")
@implements(FAST_RESIZE_CROP_MIRROR, "cpu")
class ResizeCropMirrorCpu(ResizeCpu):
    """Resizes regions."""

    geometry = CroppedGeometry


@implements(RESIZE_CROP_MIRROR, "gpu")
@implements(FAST_RESIZE_CROP_MIRROR, "gpu")
class ResizeCropMirrorGpu(ResizeGpu):
    """Resizes regions."""

    geometry = CroppedGeometry

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        #: Regions that aren't mirrored, by the images' extents; None if other arguments differ from sample to sample.
        self._regions: dict[Hashable, ResizedBatch] | None = None if node.argument_inputs.keys() - {"mirror"} else {}

    def express(self, batch: Batch, pixels: PixelExpression) -> PixelExpression | None:
        if self._regions is None or not pixels.recurs:
            return super().express(batch, pixels)
        choices = pixels.kept(self, lambda: self._choices(batch, pixels))
        return None if choices is None else choices.choose(self._mirror(batch) & _ALL_BITS, pixels)

    def _choices(self, batch: Batch, pixels: PixelExpression) -> PixelChoices | None:
        """Return the result for each value of `mirror`; None if expressions don't support one of them."""
        if not self.expressible(pixels):
            return None
        regions, filters = self._unmirrored(batch, "HW", pixels.extents[:, 1:]), self._filters.get(batch)
        options: list[PixelExpression] = []
        for bits in range(_ALL_BITS + 1):
            option = self.resized(pixels, _mirrored(regions, np.full(batch.size, bits), "HW"), filters)
            if option is None:
                return None
            options.append(option)
        return PixelChoices(options, pixels)

    def resolve(self, batch: Batch, axes: str, extents: Int64s) -> tuple[ResizedBatch, Filters]:
        if self._regions is None:
            return super().resolve(batch, axes, extents)
        return _mirrored(self._unmirrored(batch, axes, extents), self._mirror(batch), axes), self._filters.get(batch)

    def _unmirrored(self, batch: Batch, axes: str, extents: Int64s) -> ResizedBatch:
        assert self._regions is not None
        key = (axes, extents.tobytes())
        regions = self._regions.get(key)
        if regions is None:
            geometry = self._geometries.get(batch, axes)
            assert isinstance(geometry, CroppedGeometry)
            regions = geometry.cropped(extents)
            if len(self._regions) < _MOST_KEPT:
                self._regions[key] = regions
        return regions

    def _mirror(self, batch: Batch) -> Array:
        mirror = batch.arguments(self.node).scalars("mirror", np.int64)
        return mirror


# Number of batches of different extents for which regions are kept.
_MOST_KEPT = 16
