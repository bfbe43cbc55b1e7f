"""Launcher of color.cu: multiplies the channels of each pixel by a matrix."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline._cuda.context import KernelContext
from pipeline._cuda.launch import Launch, blocks_for, ctype
from pipeline._kernels.rows import zeros
from pipeline._kernels.samples import Samples
from pipeline.errors import PipelineError

__all__ = ["plan_transform_pixels", "transform_pixels"]


def transform_pixels(
    context: KernelContext,
    stream: Any,
    src: Samples,
    dst: Samples,
    *,
    matrix: npt.ArrayLike,
    offset: npt.ArrayLike = 0.0,
) -> None:
    """Compute ``matrix @ pixel + offset`` for all pixels of a batch, in float32 and one launch.

    Args:
        context: context of the samples' device.
        stream: `cupy.cuda.Stream` to enqueue on.
        src: contiguous samples, channels last; all have the same number of channels.
        dst: contiguous samples, channels last; values are rounded half away from zero and clamped.
        matrix: (K, C), or (N, K, C) with one matrix per sample; maps C channels to K channels.
        offset: (K,), (N, K) or a scalar.

    Raises:
        PipelineError: the shapes don't match.
        CudaError: the launch failed.
    """
    launch = plan_transform_pixels(src, dst, matrix=matrix, offset=offset)
    if launch is not None:
        context.run(launch, stream)


def plan_transform_pixels(
    src: Samples, dst: Samples, *, matrix: npt.ArrayLike, offset: npt.ArrayLike = 0.0
) -> Launch | None:
    """Return the launch of `transform_pixels`, or None if there are no pixels. The arguments are the same."""
    values = np.asarray(matrix, np.float32)
    rows, columns = values.shape[-2:]
    if len(src) != len(dst) or (src.shapes[:, :-1] != dst.shapes[:, :-1]).any():
        raise PipelineError("the samples of input and output differ in shape")
    if (src.shapes[:, -1] != columns).any() or (dst.shapes[:, -1] != rows).any():
        raise PipelineError(f"a matrix of {rows} by {columns} doesn't fit the channels of the samples")
    if not (src.is_contiguous() and dst.is_contiguous()):
        raise PipelineError("the samples are not contiguous")
    table = zeros(len(src), _image(rows, columns))
    table["src"], table["dst"] = src.pointers, dst.pointers
    table["pixels"] = np.prod(src.shapes[:, :-1], axis=1, dtype=np.int64)
    table["matrix"], table["offset"] = values, np.asarray(offset, np.float32)
    most = int(table["pixels"].max())
    if most == 0:
        return None
    defines = (
        ("IN", ctype(src.dtype)),
        ("OUT", ctype(dst.dtype)),
        ("IN_CHANNELS", str(columns)),
        ("OUT_CHANNELS", str(rows)),
    )
    return Launch("color.cu", "transform_pixels", defines, (table,), (blocks_for(most), len(src)))


@cache
def _image(rows: int, columns: int) -> np.dtype[Any]:
    """Return the dtype of struct Image of color.cu, for numbers of channels."""
    head = [("src", "i8"), ("dst", "i8"), ("pixels", "u8")]
    return np.dtype([*head, ("matrix", "f4", (rows, columns)), ("offset", "f4", (rows,))], align=True)
