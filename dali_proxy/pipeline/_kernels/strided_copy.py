"""Launcher of strided_copy.cu: slices, transposes, casts and pads ragged batches."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._arrays import Float64s, Int64s
from dali_proxy.pipeline._cuda.launch import ADDRESS, Launch, blocks_for, ctype
from dali_proxy.pipeline._kernels.merging import groups_of, merged_extents
from dali_proxy.pipeline._kernels.samples import Samples
from dali_proxy.pipeline.errors import PipelineError

MAX_NDIM = 6
_CHUNK = 16  # bytes that a thread copies at once from a contiguous sample


def plan_strided_copy(
    src: Samples,
    dst: Samples,
    *,
    start: npt.ArrayLike | None = None,
    step: npt.ArrayLike | None = None,
    axes: Sequence[int] | None = None,
    channel_axis: int | None = None,
    fill: npt.ArrayLike | None = None,
) -> Launch | None:
    """Return the launch that copies a batch with windows, steps, permutations and a cast.

    Output element (i0, i1, ...) of a sample is ``src[start + i * step]``, where output dimension d runs along the
    source's axis ``axes[d]``. A step of -1 with start = extent - 1 flips an axis. As in DALI, casts round half away
    from zero and clamp.

    Args:
        src: samples of up to 6 dimensions, with any strides.
        dst: contiguous samples; their shapes are the windows' extents, permuted.
        start: first source element per source axis: (N, ndim), or an array that broadcasts to it; 0 by default.
        step: distance of neighboring outputs in source elements, per source axis; nonzero; 1 by default.
        axes: permutation of the source's axes; identity by default.
        channel_axis: output dimension that `fill` runs along; None for a scalar or one value per sample, (N, 1).
        fill: value outside the source, in the output's units. None: windows must lie inside.

    Returns:
        The launch; None if the output is empty.

    Raises:
        PipelineError: shapes, windows or dtypes don't match; the message names the sample.
    """
    ndim = src.ndim
    order = list(range(ndim)) if axes is None else list(axes)
    if sorted(order) != list(range(ndim)) or dst.ndim != ndim or len(src) != len(dst):
        raise PipelineError(
            f"{len(src)} samples of {ndim} dimensions can't be copied to {len(dst)} of {dst.ndim} by {axes}"
        )
    if ndim > MAX_NDIM:
        raise PipelineError(f"samples have {ndim} dimensions, but at most {MAX_NDIM} are supported")
    if not dst.is_contiguous():
        raise PipelineError("the samples of the output are not contiguous")
    first = None if start is None else np.broadcast_to(np.asarray(start, np.int64), src.shapes.shape)
    stride = None if step is None else np.broadcast_to(np.asarray(step, np.int64), src.shapes.shape)
    if stride is not None and not stride.all():
        raise PipelineError("a step of 0")
    counts = np.prod(dst.shapes, axis=1, dtype=np.int64)
    most = int(counts.max(initial=0))
    if most == 0:
        return None

    def permuted(columns: Int64s) -> Int64s:
        return columns if axes is None else columns[:, order]

    begin, end = _inside(
        np.int64(0) if first is None else permuted(first),
        None if stride is None else permuted(stride),
        permuted(src.shapes),
        dst.shapes,
    )
    leaving = (begin > 0) | (end < dst.shapes)
    leaves = bool(leaving.any())
    if fill is None and leaves:
        index = int(np.argmax(leaving.any(axis=1)))
        raise PipelineError(
            f"sample {index}: the window of output shape {dst.shapes[index].tolist()} exceeds the source; only the "
            f"outputs from {begin[index].tolist()} to {end[index].tolist()} are inside"
        )
    channels = 1 if channel_axis is None else int(dst.shapes[:, channel_axis].max())
    fills, first_fill = _fills(len(src), channels, 0.0 if fill is None else fill)

    strides = permuted(src.strides if stride is None else stride * src.strides)
    if most >= 1 << 31:
        groups = [[dim] for dim in range(ndim)]
    else:
        partial = np.flatnonzero(leaving.any(axis=0)).tolist() if leaves else []
        apart = partial if channel_axis is None else [*partial, channel_axis % ndim]
        groups = groups_of(dst.shapes, strides, apart=apart)
    rank = max(1, len(groups))  # a scalar is copied as one dimension of extent 1
    table = np.zeros(len(src), _sample_dtype(rank))
    table["src"] = src.pointers if first is None else src.pointers + (first * src.strides).sum(axis=1)
    table["dst"] = dst.pointers
    table["count"] = counts
    table["fills"] = first_fill
    dims = table["dims"]
    dims["extent"], dims["end"] = 1, 1
    if ndim:
        dims["stride"] = strides[:, [group[-1] for group in groups]]
        dims["extent"] = dims["end"] = merged_extents(dst.shapes, groups)
        for place, group in enumerate(groups):
            if len(group) == 1:
                dims["begin"][:, place], dims["end"][:, place] = begin[:, group[0]], end[:, group[0]]
    defines = (
        ("IN", ctype(src.dtype)),
        ("OUT", ctype(dst.dtype)),
        ("NDIM", str(rank)),
        ("INDEX", "uint32" if most < 1 << 31 else "uint64"),
    )
    in_chunks = rank == 1 and src.dtype == dst.dtype and not leaves
    in_chunks = in_chunks and bool((dims["stride"] == src.dtype.itemsize).all())
    grid = (blocks_for(most, max(1, _CHUNK // src.dtype.itemsize) if in_chunks else 1), len(src))
    alone = -1 if channel_axis is None else groups.index([channel_axis % ndim])
    axis = np.int32(alone)
    return Launch("strided_copy.cu", "strided_copy", defines, (table, fills), grid, (axis,))


def _fills(samples: int, channels: int, fill: npt.ArrayLike) -> tuple[Float64s, npt.NDArray[np.uint32]]:
    """Return fill values, a scalar, (C,), or (N, C) or (N, 1), as a table of channels, and each sample's first row."""
    values = np.asarray(fill, np.float64)
    rows = samples if values.ndim == 2 else 1
    try:
        table = np.ascontiguousarray(np.broadcast_to(values, (rows, channels))).reshape(-1)
    except ValueError:
        raise PipelineError(
            f"fill of shape {values.shape} doesn't fit {samples} samples of {channels} channels"
        ) from None
    return table, np.arange(samples, dtype=np.uint32) * np.uint32(channels if rows > 1 else 0)


@cache
def _sample_dtype(ndim: int) -> np.dtype[Any]:
    """Return the dtype of struct Sample of strided_copy.cu."""
    dimension = np.dtype(
        [("stride", "i8"), ("extent", "u4"), ("begin", "u4"), ("end", "u4"), ("unused", "u4")], align=True
    )
    fields = [("src", ADDRESS), ("dst", ADDRESS), ("count", "u8"), ("fills", "u4"), ("unused", "u4")]
    return np.dtype([*fields, ("dims", dimension, (ndim,))], align=True)


def _inside(start: Int64s | np.int64, step: Int64s | None, source: Int64s, extent: Int64s) -> tuple[Int64s, Int64s]:
    """Return the outputs [begin, end) per dimension that read inside the source: 0 <= start + i * step < source.

    If `step` is None, the steps are 1. This case avoids divisions, which would dominate the time in NumPy.
    """
    if step is None:
        begin = np.minimum(np.maximum(-start, 0), extent)
        return begin, np.minimum(np.maximum(source - start, begin), extent)
    forward = step > 0
    size = np.abs(step)
    to_edge = np.where(forward, -start, start - (source - 1))  # distance from the first output to the source
    to_end = np.where(forward, source - start, start + 1)  # its distance to the source's other end
    begin = np.clip(-(-to_edge // size), 0, extent)
    end = np.clip(-(-to_end // size), begin, extent)
    return begin, end
