"""Launcher of noise.cu: adds Gaussian, salt-and-pepper or shot noise, in one launch per batch."""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline._cuda.context import KernelContext
from pipeline._cuda.launch import Launch, blocks_for, ctype
from pipeline._kernels.samples import Samples
from pipeline.errors import PipelineError

__all__ = ["Noise", "add_noise", "plan_add_noise"]

_WIDE = {np.dtype(name) for name in ("float64", "int64", "uint64", "int32", "uint32")}


class Noise(Enum):
    """Kinds of noise in noise.cu."""

    GAUSSIAN = 0
    SALT_AND_PEPPER = 1
    SHOT = 2


def add_noise(
    context: KernelContext,
    stream: Any,
    src: Samples,
    dst: Samples,
    noise: Noise,
    *,
    seeds: npt.NDArray[np.uint64],
    first: npt.ArrayLike,
    second: npt.ArrayLike = 0.0,
    salt: npt.ArrayLike = 0,
    pepper: npt.ArrayLike = 0,
    channel_axis: int | None = None,
) -> None:
    """Add noise to a batch. The noise depends only on the seeds and the positions of the elements.

    Args:
        context: context of the samples' device.
        stream: `cupy.cuda.Stream` to enqueue on.
        src: contiguous samples.
        dst: contiguous samples of the same shapes and dtype.
        noise: kind of noise.
        seeds: (N,), one seed per sample.
        first: scalar or (N,): the mean, the probability of salt, or the factor of shot noise.
        second: scalar or (N,): the standard deviation, or the probability of salt or pepper.
        salt: scalar or (N,): value of salt, in the samples' dtype.
        pepper: scalar or (N,): value of pepper, in the samples' dtype.
        channel_axis: dimension along which elements share a draw (salt and pepper only).

    Raises:
        PipelineError: the shapes don't match.
        CudaError: the launch failed.
    """
    launch = plan_add_noise(
        src, dst, noise, seeds=seeds, first=first, second=second, salt=salt, pepper=pepper, channel_axis=channel_axis
    )
    if launch is not None:
        context.run(launch, stream)


def plan_add_noise(
    src: Samples,
    dst: Samples,
    noise: Noise,
    *,
    seeds: npt.NDArray[np.uint64],
    first: npt.ArrayLike,
    second: npt.ArrayLike = 0.0,
    salt: npt.ArrayLike = 0,
    pepper: npt.ArrayLike = 0,
    channel_axis: int | None = None,
) -> Launch | None:
    """Return the launch of `add_noise`, or None if there are no elements. The arguments are the same."""
    if len(src) != len(dst) or (src.shapes != dst.shapes).any() or src.dtype != dst.dtype:
        raise PipelineError("the samples of input and output differ in shape or dtype")
    if not (src.is_contiguous() and dst.is_contiguous()):
        raise PipelineError("the samples are not contiguous")
    sample = np.dtype(
        [
            *[("src", "i8"), ("dst", "i8"), ("count", "u8"), ("seed", "u8"), ("channels", "u8"), ("inner", "u8")],
            *[("first", "f8"), ("second", "f8"), ("salt", src.dtype), ("pepper", src.dtype)],
        ],
        align=True,
    )
    table = np.zeros(len(src), sample)
    table["src"], table["dst"] = src.pointers, dst.pointers
    table["count"] = np.prod(src.shapes, axis=1, dtype=np.int64)
    table["seed"] = seeds
    table["channels"] = table["inner"] = 1
    if channel_axis is not None:
        table["channels"] = src.shapes[:, channel_axis]
        table["inner"] = np.prod(src.shapes[:, channel_axis + 1 :], axis=1, dtype=np.int64)
    table["first"], table["second"] = first, second
    table["salt"], table["pepper"] = salt, pepper
    most = int(table["count"].max())
    if most == 0:
        return None
    defines = (
        ("T", ctype(src.dtype)),
        ("SUM", "double" if src.dtype in _WIDE else "float"),
        ("NOISE", str(noise.value)),
    )
    return Launch("noise.cu", "add_noise", defines, (table,), (blocks_for(most), len(src)))
