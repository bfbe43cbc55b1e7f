"""Launcher of filter.cu: correlates images with windows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._arrays import Int64s
from dali_proxy.pipeline._cuda.launch import ADDRESS, Launch, ctype
from dali_proxy.pipeline._kernels.rows import zeros
from dali_proxy.pipeline._kernels.samples import Samples
from dali_proxy.pipeline.errors import PipelineError

_TILE = np.array([32, 128])  # rows, and elements of a row; filter.cu has the same numbers
_MOST_BLOCKS = 1 << 16
_LONGEST_ROW = (1 << 31) - 1024  # of an image and a window; positions in rows have 32 bits
_INTEGERS = (*("height", "width", "rows", "columns", "channels"), *("window_rows", "window_columns", "row", "column"))
#: struct Image of filter.cu.
_IMAGE = np.dtype(
    [("src", ADDRESS), ("dst", ADDRESS), ("window", ADDRESS), *((name, "i4") for name in _INTEGERS), ("fill", "f4")],
    align=True,
)


def plan_filter_images(
    src: Samples, dst: Samples, *, windows: Samples, anchors: Int64s, border: int = 0, fills: npt.ArrayLike = 0.0
) -> Launch | None:
    """Return the launch that correlates a batch with windows, in float32.

    Args:
        src: contiguous images of (height, width, channels).
        dst: contiguous images, smaller than the source if windows must lie inside. Integers are rounded and clamped.
        windows: one contiguous window of (rows, columns) in float32 per image.
        anchors: (N, 2), row and column in each window that align with the output pixel.
        border: value of a `pipeline._imaging.filter2d.Border`: the rule for pixels outside the image.
        fills: values outside the image for a constant border: one for all images, or one per image.

    Returns:
        The launch; None if the output is empty.

    Raises:
        PipelineError: the samples don't match, an image is too wide, or a window is empty.
    """
    if len(src) != len(dst) or len(windows) != len(src) or (src.shapes[:, 2] != dst.shapes[:, 2]).any():
        raise PipelineError("the samples of input and output, and the windows, differ in number or channels")
    if not (src.is_contiguous() and dst.is_contiguous() and windows.is_contiguous()):
        raise PipelineError("the samples are not contiguous")
    if not windows.shapes.all():
        raise PipelineError("a window has no elements")
    if ((src.shapes[:, 1] + windows.shapes[:, 1]) * src.shapes[:, 2] > _LONGEST_ROW).any():
        raise PipelineError(f"an image and its window have more than {_LONGEST_ROW} elements in a row")
    table = zeros(len(src), _IMAGE)
    table["src"], table["dst"], table["window"] = src.pointers, dst.pointers, windows.pointers
    table["height"], table["width"], table["channels"] = src.shapes.T
    table["rows"], table["columns"] = dst.shapes[:, :2].T
    table["window_rows"], table["window_columns"] = windows.shapes.T
    table["row"], table["column"] = np.asarray(anchors, np.int64).reshape(len(src), 2).T
    table["fill"] = np.asarray(fills, np.float32)
    tiles = -(-np.stack([dst.shapes[:, 0], dst.shapes[:, 1] * dst.shapes[:, 2]], axis=1) // _TILE)
    most = int(np.prod(tiles, axis=1).max())
    if not most:
        return None
    defines = (("IN", ctype(src.dtype)), ("OUT", ctype(dst.dtype)), ("BORDER", str(int(border))))
    return Launch("filter.cu", "filter_images", defines, (table,), (min(most, _MOST_BLOCKS), len(src)))
