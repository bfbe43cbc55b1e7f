"""Launcher of paste_regions.cu: composes canvases of regions of images, in one launch per batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from dali_proxy.pipeline._arrays import Array, Int64s
from dali_proxy.pipeline._cuda.launch import ADDRESS, Launch, blocks_for, ctype
from dali_proxy.pipeline._kernels.rows import zeros
from dali_proxy.pipeline._kernels.samples import Samples

#: struct Region of paste_regions.cu.
REGION = np.dtype([("src", ADDRESS), ("strides", "i8", (4,)), ("first", "i8", (2,)), ("size", "i8", (2,))])
#: struct Canvas of paste_regions.cu.
_CANVAS = np.dtype(
    [("dst", ADDRESS), *((name, "i8") for name in ("count", "height", "width", "channels", "begin", "end"))]
)


def plan_paste_regions(target: Samples, regions: Array, counts: Int64s, source: np.dtype[Any]) -> Launch | None:
    """Return the launch that pastes images of a dtype to HWC or FHWC canvases; None if the output is empty.

    `regions` are rows of `REGION`, and `counts` their number on each canvas, (N,).
    """
    canvases = zeros(len(target), _CANVAS)
    canvases["dst"], canvases["count"] = target.pointers, np.prod(target.shapes, axis=1, dtype=np.int64)
    canvases["height"], canvases["width"], canvases["channels"] = np.maximum(1, target.shapes[:, -3:]).T
    canvases["end"] = np.cumsum(counts)
    canvases["begin"] = canvases["end"] - counts
    most = int(canvases["count"].max())
    if not most:
        return None
    defines = (("IN", ctype(source)), ("OUT", ctype(target.dtype)))
    grid = (blocks_for(most), len(target))
    return Launch("paste_regions.cu", "paste_regions", defines, (canvases, regions), grid)
