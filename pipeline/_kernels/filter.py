"""Launcher of filter.cu: correlates images with windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline._cuda.context import KernelContext
from pipeline._cuda.launch import THREADS, Launch, blocks_for, ctype
from pipeline._kernels.rows import zeros
from pipeline._kernels.samples import Samples
from pipeline.errors import PipelineError

__all__ = ["filter_images", "plan_filter_images"]

_INTEGERS = (
    *("height", "width", "columns", "channels"),
    *("rows_of_window", "columns_of_window", "row", "column"),
)
# Elements that the threads of a launch compute at once, at most: positions grow by this before the last loop ends.
_GROUP = 4  # of a thread; filter.cu has the same number
_LARGEST_STEP = _GROUP * THREADS << 16
#: struct Image of filter.cu.
_IMAGE = np.dtype(
    [("src", "i8"), ("dst", "i8"), ("count", "u8"), *((name, "i8") for name in _INTEGERS), ("window", "i8"),
     ("fill", "f4")],
    align=True,
)  # fmt: skip


def filter_images(
    context: KernelContext,
    stream: Any,
    src: Samples,
    dst: Samples,
    *,
    windows: Samples,
    anchors: npt.NDArray[np.int64],
    border: int = 0,
    fills: npt.ArrayLike = 0.0,
) -> None:
    """Correlate a batch with windows, in float32 and one launch.

    Args:
        context: context of the samples' device.
        stream: `cupy.cuda.Stream` to enqueue on.
        src: contiguous images of (height, width, channels).
        dst: contiguous images, smaller than the source if windows must lie inside. Integers are rounded and clamped.
        windows: one contiguous window of (rows, columns) in float32 per image.
        anchors: (N, 2), row and column in each window that align with the output pixel.
        border: value of a `pipeline._imaging.filter2d.Border`: the rule for pixels outside the image.
        fills: values outside the image for a constant border: one for all images, or one per image.

    Raises:
        PipelineError: the samples don't match.
        CudaError: the launch failed.
    """
    launch = plan_filter_images(src, dst, windows=windows, anchors=anchors, border=border, fills=fills)
    if launch is not None:
        context.run(launch, stream)


def plan_filter_images(
    src: Samples,
    dst: Samples,
    *,
    windows: Samples,
    anchors: npt.NDArray[np.int64],
    border: int = 0,
    fills: npt.ArrayLike = 0.0,
) -> Launch | None:
    """Return the launch of `filter_images`, or None if the output is empty. The arguments are the same."""
    if len(src) != len(dst) or len(windows) != len(src) or (src.shapes[:, 2] != dst.shapes[:, 2]).any():
        raise PipelineError("the samples of input and output, and the windows, differ in number or channels")
    if not (src.is_contiguous() and dst.is_contiguous() and windows.is_contiguous()):
        raise PipelineError("the samples are not contiguous")
    table = zeros(len(src), _IMAGE)
    table["src"], table["dst"], table["window"] = src.pointers, dst.pointers, windows.pointers
    table["count"] = np.prod(dst.shapes, axis=1, dtype=np.int64)
    table["height"], table["width"], table["channels"] = src.shapes.T
    table["columns"] = dst.shapes[:, 1]
    table["rows_of_window"], table["columns_of_window"] = windows.shapes.T
    table["row"], table["column"] = np.asarray(anchors, np.int64).reshape(len(src), 2).T
    table["fill"] = np.asarray(fills, np.float32)
    most = int(table["count"].max())
    if not most:
        return None
    largest = max(most, int(np.prod(src.shapes, axis=1, dtype=np.int64).max())) + _LARGEST_STEP
    index = "int" if largest < 1 << 31 else "int64"
    defines = (("IN", ctype(src.dtype)), ("OUT", ctype(dst.dtype)), ("BORDER", str(int(border))), ("INDEX", index))
    return Launch("filter.cu", "filter_images", defines, (table,), (blocks_for(most, _GROUP), len(src)))
