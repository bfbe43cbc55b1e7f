"""Launcher of standardize.cu: subtracts means and divides by standard deviations, in one launch per batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._arrays import Float32s, Int64s
from dali_proxy.pipeline._cuda.launch import ADDRESS, Launch, blocks_for, ctype
from dali_proxy.pipeline._kernels.merging import groups_of, merged_extents
from dali_proxy.pipeline._kernels.samples import Samples, contiguous_strides
from dali_proxy.pipeline.errors import PipelineError


@dataclass(frozen=True)
class Spread:
    """Divisor: one number per sample, standard deviations, or sums of squares that define them.

    Attributes:
        factor: (N,), factor of the differences; used without deviations and sums.
        deviations: standard deviations: contiguous float32 that broadcasts to the samples, with as many dimensions.
        sums: sums of squared differences from the mean: float64, else like `deviations`.
        degrees: (N,), degrees of freedom: the divisor of sums for variances. Variances are 0 unless it is positive.
        epsilon: summand of variances.
    """

    factor: Float32s | None = None
    deviations: Samples | None = None
    sums: Samples | None = None
    degrees: npt.ArrayLike = 1.0
    epsilon: float = 0.0


def plan_standardize(
    src: Samples, dst: Samples, *, mean: Samples, spread: Spread, scale: float = 1.0, shift: float = 0.0
) -> Launch | None:
    """Return the launch that computes ``(src - mean) / deviation * scale + shift`` in float32.

    The result for a deviation of 0 is ``shift``.

    Args:
        src: contiguous samples of one or more dimensions.
        dst: contiguous samples of the same shapes; values are rounded and clamped.
        mean: contiguous float32 that broadcasts to the samples, with as many dimensions.
        spread: the divisor; its `factor` includes `scale`.
        scale: factor of the results.
        shift: summand of the results.

    Returns:
        The launch; None if there are no elements.

    Raises:
        PipelineError: the shapes don't match.
    """
    if len(src) != len(dst) or (src.shapes != dst.shapes).any() or not src.ndim:
        raise PipelineError("the samples of input and output differ in shape, or have no dimensions")
    if not (src.is_contiguous() and dst.is_contiguous()):
        raise PipelineError("the samples are not contiguous")
    mean_strides = _steps(mean, src, np.float32)
    kind, divisors = 0, None
    if spread.deviations is not None:
        kind, divisors = 1, spread.deviations
    elif spread.sums is not None:
        kind, divisors = 2, spread.sums
    elif spread.factor is None:
        raise PipelineError("the divisor is missing")
    spread_strides = np.zeros_like(mean_strides)
    if divisors is not None:
        spread_strides = _steps(divisors, src, np.float32 if kind == 1 else np.float64)
    counts = np.prod(src.shapes, axis=1, dtype=np.int64)
    groups = groups_of(src.shapes, mean_strides, spread_strides)
    if counts.max() >= 1 << 32:
        groups = [[dim] for dim in range(src.ndim)]
    innermost = [group[-1] for group in groups]

    pointers = [(name, ADDRESS) for name in ("src", "dst", "mean", "spread")]
    numbers = [("count", "u8"), ("degrees", "f8")]
    numbers += [(name, "f4") for name in ("scale", "shift", "epsilon", "factor")]
    vectors = [(name, "u4", (len(groups),)) for name in ("extent", "mean_stride", "spread_stride")]
    table = np.zeros(len(src), np.dtype([*pointers, *numbers, *vectors], align=True))
    table["src"], table["dst"], table["mean"] = src.pointers, dst.pointers, mean.pointers
    table["count"], table["degrees"], table["epsilon"] = counts, spread.degrees, spread.epsilon
    table["scale"], table["shift"] = scale, shift
    table["extent"] = np.maximum(1, merged_extents(src.shapes, groups))
    table["mean_stride"], table["spread_stride"] = mean_strides[:, innermost], spread_strides[:, innermost]
    if divisors is None:
        table["factor"] = spread.factor
    else:
        table["spread"] = divisors.pointers
    most = int(table["count"].max())
    if most == 0:
        return None
    defines = (("IN", ctype(src.dtype)), ("OUT", ctype(dst.dtype)), ("NDIM", str(len(groups))), ("SPREAD", str(kind)))
    return Launch("standardize.cu", "standardize", defines, (table,), (blocks_for(most), len(src)))


def _steps(values: Samples, like: Samples, dtype: npt.DTypeLike) -> Int64s:
    """Return the strides, in elements, of values that broadcast to samples."""
    if values.dtype != dtype or values.ndim != like.ndim or not values.is_contiguous():
        raise PipelineError(f"means or deviations must be contiguous {np.dtype(dtype)} of {like.ndim} dimensions")
    if ((values.shapes != 1) & (values.shapes != like.shapes)).any():
        raise PipelineError("means or deviations don't broadcast to the samples")
    return np.where(values.shapes == 1, 0, contiguous_strides(values.shapes, 1))
