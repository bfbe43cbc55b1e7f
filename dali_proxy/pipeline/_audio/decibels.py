"""Levels of signals in decibels."""

from __future__ import annotations

import math

import cv2
import numpy as np

from dali_proxy.pipeline._arrays import Array


def to_decibels(
    magnitude: Array, multiplier: float, reference: float | None, cutoff: float, out: Array | None = None
) -> Array:
    """Return ``multiplier * log10(magnitude / reference)``, but at least the cutoff.

    Args:
        magnitude: float32 array of any shape.
        multiplier: factor of the logarithm.
        reference: magnitude of 0 dB; None for the largest one of the array; 1 if none is positive.
        cutoff: smallest result, in decibels.
        out: output array, of the same shape, float32.

    Example:
        >>> to_decibels(np.array([1, 10, 0], np.float32), 10, None, -80)
        array([-10.,   0., -80.], dtype=float32)
    """
    if out is None:
        out = np.empty(magnitude.shape, np.float32)
    if not magnitude.size:
        return out
    if reference is None:
        reference = float(np.fmax.reduce(magnitude, axis=None, initial=0)) or 1.0
    smallest = float(np.finfo(np.float32).smallest_subnormal)
    with np.errstate(all="ignore"):
        least = np.float32(max(10.0 ** (cutoff / multiplier), smallest))
        np.divide(magnitude, np.float32(reference), out=out)
        np.fmax(out, least, out=out)  # NaN counts as silence
        # For normal numbers, OpenCV computes logarithms in a twentieth of NumPy's time.
        if least < np.finfo(np.float32).smallest_normal or np.isinf(out.max()):
            np.log(out, out=out)
        else:
            flat = out.reshape(-1, out.shape[-1] if out.ndim else 1)
            np.copyto(flat, np.asarray(cv2.log(flat)).reshape(flat.shape))
        np.multiply(out, np.float32(multiplier / math.log(10)), out=out)
    return out
