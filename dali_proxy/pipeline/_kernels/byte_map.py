"""Launcher of byte_map.cu: lookup tables for the 256 values of a byte, computed from histograms."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._arrays import Int64s
from dali_proxy.pipeline._cuda.launch import ADDRESS, Launch, blocks_for
from dali_proxy.pipeline._kernels.rows import zeros
from dali_proxy.pipeline._kernels.samples import Samples
from dali_proxy.pipeline.errors import PipelineError

#: struct Image of byte_map.cu.
_IMAGE = np.dtype(
    [("src", ADDRESS), ("count", "u8"), ("channels", "u8"), ("counts", ADDRESS), ("tables", ADDRESS),
     ("factor", "f4"), ("rule", "i4")],
    align=True,
)  # fmt: skip
_COPIES = 4
_DEFINES = (("COPIES", str(_COPIES)),)
_COUNTED_PER_THREAD = 64


class Rule(IntEnum):
    """Rules that compute tables from histograms; each matches the function of the same name in `pipeline._imaging`."""

    EQUALIZATION = 0
    AUTO_CONTRAST = 1
    CONTRAST = 2


class CountedMap:
    """Plan of the launches that compute a table for each channel of an image from its histogram.

    Args:
        images: contiguous uint8 images of (height, width, channels).
        rules: `Rule` that computes the tables: one for all images, or one per image.
        factors: contrast factors: one for all images, or one per image.

    Raises:
        PipelineError: the images don't fit the rules.
    """

    def __init__(self, images: Samples, rules: npt.ArrayLike, factors: npt.ArrayLike = 1.0) -> None:
        if images.dtype != np.uint8 or not images.is_contiguous():
            raise PipelineError(f"tables are for contiguous images of bytes, not of {images.dtype}")
        if images.ndim != 3:
            raise PipelineError(f"images need the dimensions (height, width, channels), not {images.ndim} dimensions")
        self._images = zeros(len(images), _IMAGE)
        self._images["src"] = images.pointers
        self._images["count"] = images.sizes
        self._images["channels"] = np.maximum(1, images.shapes[:, -1])
        self._images["factor"] = np.asarray(factors, np.float32)
        self._images["rule"] = np.asarray(rules)
        channels = images.shapes[self._images["rule"] == int(Rule.CONTRAST), -1]
        if ((channels != 1) & (channels != 3)).any():
            raise PipelineError("images must have 1 or 3 channels to have a brightness")
        words = self._images["channels"].astype(np.int64) * 256
        self._begins, self._words = np.cumsum(words) - words, int(words.sum())
        empty = not int(self._images["count"].max())
        #: Bytes of device memory for counts and tables.
        self.scratch_bytes = 0 if empty else self._words * (4 * _COPIES + 1)

    def tables(self, scratch: int) -> Int64s:
        """Return the addresses of the tables of each image, (N,): (channels, 256) bytes."""
        return scratch + self._words * 4 * _COPIES + self._begins

    def launches(self, scratch: int) -> list[Launch]:
        """Return the launches in order; `scratch` is the address of device memory of `scratch_bytes`."""
        if not self.scratch_bytes:
            return []
        images = self._images.copy()
        images["counts"] = scratch + self._begins * 4 * _COPIES
        images["tables"] = self.tables(scratch)
        channels, most = int(images["channels"].max()), int(images["count"].max())
        blocks = {
            "clear_counts": blocks_for(channels * 256 * _COPIES),
            "count_values": blocks_for(most, _COUNTED_PER_THREAD),
            "make_tables": blocks_for(channels),
        }
        rows = len(images)
        return [Launch("byte_map.cu", name, _DEFINES, (images,), (count, rows)) for name, count in blocks.items()]
