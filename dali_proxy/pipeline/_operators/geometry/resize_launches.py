"""Resizes batches on the GPU. Samples of any layout are split into images (height, width, channels) for the kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dali_proxy.pipeline._arrays import Float64s, Int64s
from dali_proxy.pipeline._cuda.context import KernelContext
from dali_proxy.pipeline._kernels import Samples
from dali_proxy.pipeline._kernels.resample import ResamplePlan
from dali_proxy.pipeline._kernels.samples import contiguous_strides


@dataclass(frozen=True, eq=False)
class Filters:
    """Filters of a batch, by sample.

    Attributes:
        lower: `DALIInterpType` for axes that shrink, (N,).
        upper: `DALIInterpType` for axes that grow, (N,).
        antialias: whether filters are widened along axes that shrink.
    """

    lower: Int64s
    upper: Int64s
    antialias: bool

    def options(self, owners: Int64s) -> dict[str, Any]:
        """Return the options of `resample` for images that belong to these samples."""
        return {"min_filter": self.lower[owners], "mag_filter": self.upper[owners], "antialias": self.antialias}


def frames(samples: Samples, leading: int) -> tuple[Samples, Int64s]:
    """Split samples along their leading axes.

    Returns:
        The frames, and the index of the sample that each frame belongs to. Frames of two dimensions get a third with
        one channel.
    """
    if leading == 0 and samples.ndim == 3:
        return samples, np.arange(len(samples))
    axes = range(leading)
    owners, positions = samples.positions(axes)
    parts = samples.parts(owners, positions, axes)
    if parts.ndim == 2:  # `np.pad` would take several times as long
        ones = np.ones((len(parts), 1), np.int64)
        shapes, strides = np.hstack([parts.shapes, ones]), np.hstack([parts.strides, ones * samples.dtype.itemsize])
        parts = Samples(parts.pointers, shapes, strides, samples.dtype)
    return parts, owners


def resample_images(
    kernels: KernelContext,
    stream: Any,
    source: Samples,
    target: Samples,
    first: int,
    low: Float64s,
    high: Float64s,
    filters: Filters,
) -> None:
    """Resize axes `first` (height) and `first + 1` (width) of regions from `low` to `high`, (N, 2) each.

    Each position along the axes before them is a separate image. The target is contiguous.
    """
    images, owners = frames(source, first)
    results, _ = frames(target, first)
    roi = np.concatenate([low, high], axis=1)[owners]
    kernels.run_plan(ResamplePlan(images, results, roi=roi, **filters.options(owners)), stream)


def resample_volumes(
    kernels: KernelContext,
    stream: Any,
    source: Samples,
    target: Samples,
    first: int,
    low: Float64s,
    high: Float64s,
    filters: Filters,
) -> None:
    """Resize axes `first` (depth) to `first + 2` of a batch; arguments as in `resample_images`.

    The slices are resized to float32, then the depth, as images one pixel wide whose channels are whole slices.
    """
    import cupy

    slices, owners = frames(source, first + 1)
    volumes, volume_owners = frames(target, first)
    depths = frames(source, first)[0].shapes[:, 0]
    shapes = np.repeat(volumes.shapes[:, 1:3], depths, axis=0)
    shapes = np.concatenate([shapes, slices.shapes[:, 2:]], axis=1)
    sizes = np.prod(shapes, axis=1)
    float32 = np.dtype(np.float32)
    between = cupy.empty(int(sizes.sum()), float32)
    pointers = int(between.data.ptr) + (np.cumsum(sizes) - sizes) * float32.itemsize
    roi = np.concatenate([low[:, 1:], high[:, 1:]], axis=1)[owners]
    planes = _contiguous(pointers, shapes, float32)
    kernels.run_plan(ResamplePlan(slices, planes, roi=roi, **filters.options(owners)), stream)

    heads = np.cumsum(depths) - depths  # the first slice of each volume
    ones = np.ones_like(depths)
    columns = _contiguous(pointers[heads], np.stack([depths, ones, sizes[heads]], axis=1), float32)
    resized_shapes = np.stack([volumes.shapes[:, 0], ones, sizes[heads]], axis=1)
    results = _contiguous(volumes.pointers, resized_shapes, target.dtype)
    zeros = np.zeros(len(ones))
    roi = np.stack([low[volume_owners, 0], zeros, high[volume_owners, 0], zeros + 1], axis=1)
    kernels.run_plan(ResamplePlan(columns, results, roi=roi, **filters.options(volume_owners)), stream)


def _contiguous(pointers: Int64s, shapes: Int64s, dtype: np.dtype[Any]) -> Samples:
    return Samples(pointers, shapes, contiguous_strides(shapes, dtype.itemsize), dtype)
