"""Launcher of jpeg.cu: adds the compression artifacts of JPEG, in two launches per batch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._arrays import Int64s
from dali_proxy.pipeline._cuda.launch import ADDRESS, Launch, blocks_for
from dali_proxy.pipeline._kernels.rows import zeros
from dali_proxy.pipeline._kernels.samples import Samples
from dali_proxy.pipeline.errors import PipelineError

# Tables of the standard's annex K, row by row.
_LUMA = (
    "16 11 10 16 24 40 51 61 12 12 14 19 26 58 60 55 14 13 16 24 40 57 69 56 14 17 22 29 51 87 80 62 "
    "18 22 37 56 68 109 103 77 24 35 55 64 81 104 113 92 49 64 78 87 103 121 120 101 72 92 95 98 112 100 103 99"
)
_CHROMA = (
    "17 18 24 47 99 99 99 99 18 21 26 66 99 99 99 99 24 26 56 99 99 99 99 99 47 66 99 99 99 99 99 99 "
    "99 99 99 99 99 99 99 99 99 99 99 99 99 99 99 99 99 99 99 99 99 99 99 99 99 99 99 99 99 99 99 99"
)
_TABLES = np.array([_LUMA.split(), _CHROMA.split()], np.int64)

# Threads of a tile in the first launch, and pixels of a thread in the second; jpeg.cu has the same numbers.
_TILE_THREADS, _GROUP = 16, 4
#: struct Image of jpeg.cu.
_IMAGE = np.dtype(
    [
        ("src", ADDRESS),
        ("dst", ADDRESS),
        ("planes", ADDRESS),
        ("height", "u4"),
        ("width", "u4"),
        ("quant", "u2", (2, 64)),
    ],
    align=True,
)


def quantization(quality: Int64s) -> npt.NDArray[np.uint16]:
    """Return libjpeg's tables of luma and chroma for qualities from 1 to 100, (N, 2, 64)."""
    scale = np.where(quality < 50, 5000 // quality, 200 - 2 * quality)
    return np.clip((_TABLES * scale[:, None, None] + 50) // 100, 1, 255).astype(np.uint16)


class JpegPlan:
    """Plan of the launches that compress images as JPEG with chroma at half the resolution, and decompress them.

    Args:
        src: contiguous uint8 RGB images, HWC.
        dst: contiguous uint8 images of the same shapes.
        quality: (N,), from 1 to 100.

    Raises:
        PipelineError: the samples have other shapes or dtypes, or aren't contiguous.
    """

    def __init__(self, src: Samples, dst: Samples, quality: Int64s) -> None:
        images = all(samples.ndim == 3 and samples.dtype == np.uint8 for samples in (src, dst))
        if not images or (src.shapes != dst.shapes).any() or (src.shapes[:, 2] != 3).any():
            raise PipelineError("the samples of input and output must be RGB images, uint8, of the same shapes")
        if not (src.is_contiguous() and dst.is_contiguous()):
            raise PipelineError("the samples are not contiguous")
        self._tiles = np.prod(-(-src.shapes[:, :2] // 16), axis=1)  # of 16 by 16 pixels
        self._table = zeros(len(src), _IMAGE)
        self._table["src"], self._table["dst"] = src.pointers, dst.pointers
        self._table["height"], self._table["width"] = src.shapes[:, 0], src.shapes[:, 1]
        self._table["quant"] = quantization(quality)
        #: Bytes of device memory for the luma and chroma planes.
        self.scratch_bytes = int(self._tiles.sum()) * 384

    def launches(self, scratch: int) -> list[Launch]:
        """Return both launches, or none for empty images; `scratch` points to `scratch_bytes` of device memory."""
        if not self.scratch_bytes:
            return []
        self._table["planes"] = scratch + (np.cumsum(self._tiles) - self._tiles) * 384
        groups = self._table["height"].astype(np.int64) * (-(-self._table["width"].astype(np.int64) // _GROUP))
        first = (blocks_for(int(self._tiles.max()) * _TILE_THREADS), len(self._table))
        last = (blocks_for(int(groups.max())), len(self._table))
        return [
            Launch("jpeg.cu", "jpeg_blocks", (), (self._table,), first),
            Launch("jpeg.cu", "jpeg_pixels", (), (self._table,), last),
        ]
