"""Launcher of warp.cu: applies affine warps to ragged batches, in one launch per batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from dali_proxy.pipeline._arrays import Float64s
from dali_proxy.pipeline._cuda.launch import ADDRESS, Launch, blocks_for, ctype
from dali_proxy.pipeline._kernels.samples import Samples
from dali_proxy.pipeline.errors import PipelineError


def plan_warp_affine(
    src: Samples, dst: Samples, matrices: Float64s, *, nearest: bool = False, fill: float | None = None
) -> Launch | None:
    """Return the launch that warps a batch by the rules of `pipeline._imaging.warp.warp_affine`.

    Args:
        src: HWC or DHWC samples with any strides; an empty one has an empty output.
        dst: contiguous samples of any dtype: the new extents, with the source's channels.
        matrices: (N, n, n + 1) for n spatial axes; they map the output to the source.
        nearest: whether to take the nearest pixel instead of interpolating.
        fill: value outside the source, from `pipeline._imaging.sampling.prepare_fill`; None repeats the border.

    Returns:
        The launch; None if the output is empty.

    Raises:
        PipelineError: the shapes don't match, or an empty sample's output isn't empty.
    """
    ndim = src.ndim - 1
    if ndim not in (2, 3) or dst.ndim != src.ndim or matrices.shape != (len(src), ndim, ndim + 1):
        raise PipelineError(f"{len(src)} samples of {src.ndim} dimensions can't be warped by {matrices.shape} matrices")
    if len(dst) != len(src) or (src.shapes[:, -1] != dst.shapes[:, -1]).any() or not dst.is_contiguous():
        raise PipelineError("warping needs images, and as many contiguous outputs with the same channels")
    counts = np.prod(dst.shapes, axis=1, dtype=np.int64)
    if not counts.max():
        return None
    wrong = (src.shapes == 0).any(axis=1) & (counts > 0)
    if wrong.any():
        index = int(np.argmax(wrong))
        raise PipelineError(f"sample {index} is empty and can't be warped")
    fields: list[tuple[Any, ...]] = [("src", ADDRESS), ("dst", ADDRESS), ("count", "u8"), ("stride", "i8", (ndim + 1,))]
    fields += [("out", "u4", (ndim + 1,)), ("extent", "i4", (ndim,))]
    fields += [("matrix", "f8", (ndim, ndim + 1)), ("fill", "f8")]
    table = np.zeros(len(src), np.dtype(fields, align=True))
    table["src"], table["dst"], table["count"] = src.pointers, dst.pointers, counts
    table["stride"], table["out"], table["extent"] = src.strides, np.maximum(dst.shapes, 1), src.shapes[:, :-1]
    table["matrix"], table["fill"] = matrices, fill or 0.0
    defines = (
        ("IN", ctype(src.dtype)),
        ("OUT", ctype(dst.dtype)),
        ("NDIM", str(ndim)),
        ("LINEAR", "0" if nearest else "1"),
        ("FILL", "0" if fill is None else "1"),
    )
    return Launch("warp.cu", "warp_affine", defines, (table,), (blocks_for(int(counts.max())), len(src)))
