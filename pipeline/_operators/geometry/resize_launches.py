"""Resizing on the GPU: batches of any layout as pictures (height, width, channels), which the kernel knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline._kernels import KernelContext, Samples, resample
from pipeline._kernels.samples import contiguous_strides

__all__ = ["Filters", "frames", "resample_pictures", "resample_volumes"]

_Table = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Filters:
    """Filters of a batch, by sample.

    Attributes:
        lower: `DALIInterpType` for axes that shrink.
        upper: the same for axes that grow.
        antialias: whether filters are widened along axes that shrink.
    """

    lower: npt.NDArray[np.int64]
    upper: npt.NDArray[np.int64]
    antialias: bool

    def of(self, owners: npt.NDArray[np.int64]) -> dict[str, Any]:
        """Return the options of `resample` for pictures that belong to these samples."""
        return {"min_filter": self.lower[owners], "mag_filter": self.upper[owners], "antialias": self.antialias}


def frames(samples: Samples, leading: int) -> tuple[Samples, npt.NDArray[np.int64]]:
    """Return each position of the leading axes as a sample of its own, and the sample that each one belongs to.

    What is left of two dimensions gets a third, of one channel.
    """
    counts = np.prod(samples.shapes[:, :leading], axis=1, dtype=np.int64)
    owners = np.repeat(np.arange(len(samples)), counts)
    numbers = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
    pointers = samples.pointers[owners].copy()
    for axis in reversed(range(leading)):
        extents = samples.shapes[owners, axis]
        pointers += numbers % extents * samples.strides[owners, axis]
        numbers = numbers // extents
    shapes, strides = samples.shapes[owners, leading:], samples.strides[owners, leading:]
    if shapes.shape[1] == 2:
        shapes = np.pad(shapes, ((0, 0), (0, 1)), constant_values=1)
        strides = np.pad(strides, ((0, 0), (0, 1)), constant_values=samples.dtype.itemsize)
    return Samples(pointers, shapes, strides, samples.dtype), owners


def resample_pictures(
    kernels: KernelContext,
    stream: Any,
    source: Samples,
    target: Samples,
    first: int,
    low: _Table,
    high: _Table,
    filters: Filters,
) -> None:
    """Resize axes `first` (height) and `first + 1` (width) of a batch.

    Args:
        kernels: of the batch's device.
        stream: to enqueue on.
        source: the batch; any strides.
        target: the resized batch; contiguous.
        first: axes before the height, each position of which is a picture of its own.
        low: (N, 2), where regions begin.
        high: (N, 2), where they end.
        filters: of the samples.
    """
    pictures, owners = frames(source, first)
    results, _ = frames(target, first)
    roi = np.concatenate([low, high], axis=1)[owners]
    resample(kernels, stream, pictures, results, roi=roi, **filters.of(owners))


def resample_volumes(
    kernels: KernelContext,
    stream: Any,
    source: Samples,
    target: Samples,
    first: int,
    low: _Table,
    high: _Table,
    filters: Filters,
) -> None:
    """Resize axes `first` (depth) to `first + 2` of a batch; arguments as in `resample_pictures`.

    Slices go first, into float32; then the depth, as pictures one pixel wide whose channels are whole slices.
    """
    import cupy

    slices, owners = frames(source, first + 1)
    wanted, volume_owners = frames(target, first)
    depths = frames(source, first)[0].shapes[:, 0]
    shapes = np.repeat(wanted.shapes[:, 1:3], depths, axis=0)
    shapes = np.concatenate([shapes, slices.shapes[:, 2:]], axis=1)
    sizes = np.prod(shapes, axis=1)
    float32 = np.dtype(np.float32)
    between = cupy.empty(int(sizes.sum()), float32)
    pointers = int(between.data.ptr) + (np.cumsum(sizes) - sizes) * float32.itemsize
    roi = np.concatenate([low[:, 1:], high[:, 1:]], axis=1)[owners]
    resample(kernels, stream, slices, _contiguous(pointers, shapes, float32), roi=roi, **filters.of(owners))

    heads = np.cumsum(depths) - depths  # the first slice of each volume
    once = np.ones_like(depths)
    columns = _contiguous(pointers[heads], np.stack([depths, once, sizes[heads]], axis=1), float32)
    made = np.stack([wanted.shapes[:, 0], once, sizes[heads]], axis=1)
    results = _contiguous(wanted.pointers, made, target.dtype)
    zeros = np.zeros(len(once))
    roi = np.stack([low[volume_owners, 0], zeros, high[volume_owners, 0], zeros + 1], axis=1)
    resample(kernels, stream, columns, results, roi=roi, **filters.of(volume_owners))


def _contiguous(pointers: npt.NDArray[np.int64], shapes: npt.NDArray[np.int64], dtype: np.dtype[Any]) -> Samples:
    return Samples(pointers, shapes, contiguous_strides(shapes, dtype.itemsize), dtype)
