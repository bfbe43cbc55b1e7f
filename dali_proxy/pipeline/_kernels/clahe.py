"""Launcher of clahe.cu: contrast-limited adaptive histogram equalization, in two launches per batch."""

from __future__ import annotations

import numpy as np

from dali_proxy.pipeline._cuda.launch import ADDRESS, Launch
from dali_proxy.pipeline._kernels.evaluate import evaluation_defines
from dali_proxy.pipeline._kernels.expression import PixelExpression

_VALUES = 256
_MOST_BLOCKS = 1 << 16


class ClahePlan:
    """Plan of the tables and of the equalized images. Only the first `channels` channels of uint8 images are equalized.

    `tiles` are along height and width. `clip_limit` is the largest count of a value, relative to the mean, if
    it is positive.
    """

    def __init__(self, images: PixelExpression, tiles: tuple[int, int], clip_limit: float, channels: int) -> None:
        self._images, self._tiles, self._channels = images, np.array(tiles), channels
        extents = images.extents[:, 1:]
        # If the tiles don't fit, OpenCV extends both axes, an axis that fits by one pixel per tile.
        fits = (extents % self._tiles == 0).all(axis=1, keepdims=True)
        extended = np.where(fits, extents, extents + self._tiles - extents % self._tiles)
        self._sizes = extended // self._tiles
        areas = np.prod(self._sizes, axis=1)
        self._limits = np.maximum(1, (clip_limit * areas / _VALUES).astype(np.int64)) if clip_limit > 0 else 0 * areas
        self._per_image = int(np.prod(self._tiles)) * channels * _VALUES
        #: Bytes of device memory for the tables.
        self.scratch_bytes = self._per_image * len(images)

    def tables(self, scratch: int) -> Launch:
        """Return the launch that computes the tables; `scratch` points to device memory of `scratch_bytes`."""
        pair = ("i4", (2,))
        head = [("tables", ADDRESS), ("extent", *pair), ("tiles", *pair), ("size", *pair), ("limit", "i4")]
        rows = np.zeros(len(self._images), np.dtype([*head, ("value", self._images.rows.dtype)], align=True))
        rows["tables"], rows["extent"] = self._pointers(scratch), self._images.extents[:, 1:]
        rows["tiles"], rows["size"], rows["limit"] = self._tiles, self._sizes, self._limits
        rows["value"] = self._images.rows
        defines = (*evaluation_defines(self._images.kind, rows.dtype.itemsize), ("EQUALIZED", str(self._channels)))
        blocks = min(self._per_image // _VALUES, _MOST_BLOCKS)
        return Launch("clahe.cu", "tile_tables", defines, (rows,), (blocks, len(rows)))

    def equalized(self, scratch: int) -> PixelExpression:
        """Return the images with the tables that `scratch` points to."""
        return self._images.tiles(self._pointers(scratch), self._tiles, self._sizes, self._channels)

    def _pointers(self, scratch: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return scratch + np.arange(len(self._images), dtype=np.int64) * self._per_image
