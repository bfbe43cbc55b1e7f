"""Launchers of elementwise.cu: preemphasis and decibels, in one launch per batch."""

from __future__ import annotations

import numpy as np

from dali_proxy.pipeline._arrays import Array, Float32s
from dali_proxy.pipeline._cuda.launch import ADDRESS, Launch, blocks_for, ctype
from dali_proxy.pipeline._kernels.samples import Samples

#: By name of the argument: predecessor of the first element.
_BORDERS = {"zero": 0, "clamp": 1, "reflect": 2}
_SMALLEST = float(np.finfo(np.float32).smallest_subnormal)


def plan_preemphasize(src: Samples, dst: Samples, coefficients: Float32s, border: str) -> Launch | None:
    """Return the launch that subtracts from each element its predecessor times the sample's coefficient.

    Args:
        src: contiguous samples.
        dst: contiguous samples of any dtype and the same shapes; integers are rounded and clamped.
        coefficients: factor of the predecessor for each sample, (N,).
        border: predecessor of the first element: "zero", "clamp" for itself, or "reflect" for the second one.
    """
    table, grid = _table(src, dst)
    table["coefficient"] = coefficients
    defines = _defines(src, dst, _BORDERS[border])
    return Launch("audio/elementwise.cu", "preemphasize", defines, (table,), grid) if grid[0] else None


def plan_to_decibels(
    src: Samples, dst: Samples, *, multiplier: float, cutoff: float, reference: float | Samples
) -> Launch | None:
    """Return the launch that computes ``multiplier * log10(magnitude / reference)``, but at least the cutoff.

    Args:
        src: contiguous samples.
        dst: contiguous float32 samples of the same shapes.
        multiplier: factor of the logarithm.
        cutoff: smallest result, in decibels.
        reference: magnitude of 0 dB, or samples of the dtype of `src` with the magnitude of each one.
    """
    table, grid = _table(src, dst)
    scalar = np.float32(1.0 if isinstance(reference, Samples) else reference)
    if isinstance(reference, Samples):
        table["reference"] = reference.pointers
    least = np.log(max(10.0 ** (cutoff / multiplier), _SMALLEST))
    scalars = (scalar, np.float32(least), np.float32(multiplier / np.log(10)))
    defines = _defines(src, dst, 0)
    return Launch("audio/elementwise.cu", "to_decibels", defines, (table,), grid, scalars) if grid[0] else None


def _table(src: Samples, dst: Samples) -> tuple[Array, tuple[int, int]]:
    fields = [
        ("src", ADDRESS),
        ("dst", ADDRESS),
        ("count", "u8"),
        ("reference", ADDRESS),
        ("coefficient", _number(src)),
    ]
    table = np.zeros(len(src), np.dtype(fields, align=True))
    table["src"], table["dst"] = src.pointers, dst.pointers
    table["count"] = np.prod(src.shapes, axis=1, dtype=np.int64)
    most = int(table["count"].max())
    return table, (blocks_for(most) if most else 0, len(src))


def _number(src: Samples) -> str:
    return "f8" if src.dtype == np.float64 else "f4"


def _defines(src: Samples, dst: Samples, border: int) -> tuple[tuple[str, str], ...]:
    number = {"f4": "float32", "f8": "float64"}[_number(src)]
    return (("IN", ctype(src.dtype)), ("OUT", ctype(dst.dtype)), ("NUMBER", number), ("BORDER", str(border)))
