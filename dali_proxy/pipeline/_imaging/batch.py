"""Resizing and normalisation of a batch of images in one call, without Python code per image."""

from __future__ import annotations

import numpy as np

from dali_proxy.pipeline._arrays import Bools, Float32s, Float64s, Int64s
from dali_proxy.pipeline._imaging.native import compiled
from dali_proxy.pipeline._imaging.resample import MOST_PIXELS

# The compiled loop sums up to 16 pixels: a triangle with 7.5 pixels on each side, and one pixel for rounding.
_MOST_SHRINKING = 7.5


class ImageBatch:
    """Images in memory, and their arguments of `resize` and `crop_mirror_normalize`.

    Args:
        pointers: (N,) int64, addresses of uint8 HWC images. The caller keeps the images alive.
        shapes: (N, 3) int64.
        strides: (N, 3) int64, in bytes.
        regions: (N, 4) float64, regions (y0, x0, y1, x1) as in `resize`.
        size: (height, width) of all results.
        antialias: as in `resize`; the filter is linear.
        mirror: (N,) bool.
        scale: (N or 1, C) float32, as in `crop_mirror_normalize`.
        bias: see `scale`.
    """

    def __init__(
        self,
        pointers: Int64s,
        shapes: Int64s,
        strides: Int64s,
        regions: Float64s,
        *,
        size: tuple[int, int],
        antialias: bool,
        mirror: Bools,
        scale: Float32s,
        bias: Float32s,
    ) -> None:
        self.shape = (len(pointers), int(shapes[0, 2]), *size)
        self._strides = strides
        self._shapes = shapes
        self._images = np.column_stack([pointers, shapes[:, :2], strides[:, 0]])
        self._regions = np.ascontiguousarray(regions)
        self._antialias = antialias
        self._mirror = np.ascontiguousarray(mirror)
        self._values = np.ascontiguousarray(scale), np.ascontiguousarray(bias)

    def fits(self) -> bool:
        """Return whether the compiled loop exists and supports the images (packed pixels, moderate scales)."""
        channels, (height, width) = self.shape[1], self.shape[2:]
        extents = np.abs(self._regions[:, 2:] - self._regions[:, :2]) * self._antialias
        return bool(
            compiled is not None
            and 1 < channels <= 4
            and self._shapes.all()
            and (self._shapes[:, 2] == channels).all()
            and (self._strides[:, 1:] == (channels, 1)).all()
            and min(height, width) > 0
            and (np.abs(self._regions) < MOST_PIXELS).all()
            and (extents <= np.array([height, width]) * _MOST_SHRINKING).all()
        )

    def make(self, out: Float32s, begin: int, end: int) -> None:
        """Compute results `begin` to `end` into `out`, C-contiguous (N, C, height, width), without the GIL."""
        assert compiled is not None
        compiled.crop_resize_normalize(
            self._images, self._regions, self._mirror, *self._values, self._antialias, out, begin, end
        )
