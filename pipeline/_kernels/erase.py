"""Launcher of erase.cu: fills regions of ragged batches, in one launch per batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline._cuda.context import KernelContext
from pipeline._cuda.launch import Launch, blocks_for, ctype
from pipeline._kernels.channels import channel_table
from pipeline._kernels.samples import Samples
from pipeline.errors import PipelineError

__all__ = ["erase", "plan_erase"]


def erase(
    context: KernelContext,
    stream: Any,
    src: Samples,
    dst: Samples,
    regions: Sequence[npt.NDArray[np.int64]],
    fill: npt.ArrayLike,
    channel_axis: int | None = None,
) -> None:
    """Copy a batch and fill regions of the copies.

    Args:
        context: context of the samples' device.
        stream: `cupy.cuda.Stream` to enqueue on.
        src: samples of one or more dimensions, with any strides.
        dst: contiguous samples of the same shapes and dtype.
        regions: per sample (R, 2, ndim): begin and end of each region along all dimensions, inside the sample.
        fill: one value or one value per channel, for all samples or per sample.
        channel_axis: dimension that the fill values run along; None for one value.

    Raises:
        PipelineError: the samples don't match.
        CudaError: the launch failed.
    """
    launch = plan_erase(src, dst, regions, fill, channel_axis)
    if launch is not None:
        context.run(launch, stream)


def plan_erase(
    src: Samples,
    dst: Samples,
    regions: Sequence[npt.NDArray[np.int64]],
    fill: npt.ArrayLike,
    channel_axis: int | None = None,
) -> Launch | None:
    """Return the launch of `erase`, or None if all samples are empty. The arguments are the same."""
    if len(src) != len(dst) or (src.shapes != dst.shapes).any() or src.dtype != dst.dtype or not src.ndim:
        raise PipelineError("erasing needs samples of one or more dimensions, and outputs of the same shapes")
    if not dst.is_contiguous() or len(regions) != len(src):
        raise PipelineError("erasing needs contiguous outputs, and regions for each sample")
    counts = np.prod(src.shapes, axis=1, dtype=np.int64)
    if not counts.max():
        return None
    channels = 1 if channel_axis is None else int(src.shapes[:, channel_axis].max())
    channel_rows, channel_first = channel_table(len(src), channels, fill=fill)
    numbers = np.array([len(rows) for rows in regions], np.int64)

    dims = ("u4", (src.ndim,))
    columns = [("src", "i8"), ("dst", "i8"), ("count", "u8")]
    columns += [(name, "u4") for name in ("channels", "regions", "region_count", "unused")]
    table = np.zeros(len(src), np.dtype([*columns, ("stride", "i8", (src.ndim,)), ("extent", *dims)], align=True))
    table["src"], table["dst"], table["count"] = src.pointers, dst.pointers, counts
    table["channels"], table["regions"], table["region_count"] = channel_first, np.cumsum(numbers) - numbers, numbers
    table["stride"], table["extent"] = src.strides, np.maximum(src.shapes, 1)

    boxes = np.zeros(max(1, int(numbers.sum())), np.dtype([("begin", *dims), ("end", *dims)]))
    if numbers.any():
        stacked = np.concatenate([rows.reshape(-1, 2, src.ndim) for rows in regions])
        boxes["begin"], boxes["end"] = stacked[:, 0], stacked[:, 1]
    defines = (("VALUE", ctype(src.dtype)), ("NDIM", str(src.ndim)))
    grid = (blocks_for(int(counts.max())), len(src))
    axis = np.int32(-1 if channel_axis is None else channel_axis)
    return Launch("erase.cu", "erase", defines, (table, boxes, channel_rows), grid, (axis,))
