"""Resampling of signals by a windowed sinc filter, and the ranges of audio dtypes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["check_quality", "resample", "to_range"]

Array = npt.NDArray[Any]

# Entries of the filter's table between two input samples; the filter is linear between entries.
_PHASES = 32
# Weights that are computed at a time, so that long signals don't need much memory.
_BLOCK = 1 << 18


def check_quality(quality: float) -> float:
    """Return the quality of a filter.

    Raises:
        ValueError: it isn't from 0 to 100.
    """
    if not 0 <= quality <= 100:
        raise ValueError(f"argument 'quality' is out of range: {quality}; valid are 0 to 100")
    return quality


def _lobes(quality: float) -> int:
    """Return the number of lobes of the sinc on each side: 3, 16 and 64 for the qualities 0, 50 and 100."""
    return round(0.007 * quality**2 - 0.09 * quality + 3)


@lru_cache(maxsize=8)
def _filters(lobes: int) -> tuple[Array, Array]:
    """Return the weights of 2 * lobes inputs for each phase, and their differences to the next phase; float32.

    The filter is a sinc with a Hann window that ends half an entry beyond the last lobe.
    """
    distance = np.abs(np.arange(1 - lobes, lobes + 1) - np.arange(_PHASES + 1)[:, None] / _PHASES)
    window = 0.5 + 0.5 * np.cos(np.pi * distance / (lobes + 0.5 / _PHASES))
    weights = np.where(distance < lobes, np.sinc(distance) * window, 0)
    return weights[:-1].astype(np.float32), np.diff(weights, axis=0).astype(np.float32)


def resample(signal: Array, scale: float, length: int, quality: float) -> Array:
    """Return a signal at another sample rate.

    Output i lies at position ``i / scale`` of the input. The signal is 0 outside. Frequencies that the output can't
    represent are not removed, as in DALI.

    Args:
        signal: float32 array of shape (samples, channels).
        scale: ratio of the sample rates, output to input.
        length: number of output samples.
        quality: 0 to 100; determines the length of the filter.

    Returns:
        float32 array of shape (length, channels).
    """
    if scale == 1 and length == len(signal):
        return signal
    lobes = _lobes(quality)
    weights, slopes = _filters(lobes)
    padded = np.pad(signal, ((lobes, lobes + 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * lobes, axis=0)
    result = np.empty((length, signal.shape[1]), np.float32)
    block = max(1, _BLOCK // (2 * lobes))
    for start in range(0, length, block):
        position = np.arange(start, min(start + block, length)) / scale
        before = np.floor(position).astype(np.intp)
        phase = (position - before) * _PHASES
        entry = phase.astype(np.intp)
        taps = slopes[entry]
        taps *= (phase - entry).astype(np.float32)[:, None]
        taps += weights[entry]
        np.einsum("nt,nct->nc", taps, windows[before + 1], out=result[start : start + block])
    return result


def to_range(signal: Array, dtype: np.dtype[Any]) -> Array:
    """Return a signal in the range of another dtype, as float32 values that aren't rounded.

    The range of real numbers is -1 to 1. The middle of the range of unsigned integers is silence.

    Example:
        >>> to_range(np.array([0, 128, 255], np.uint8), np.dtype(np.int8))
        array([-127.        ,    0.49803922,  127.        ], dtype=float32)
    """
    source = signal.dtype
    if source == dtype:
        return signal.astype(np.float32, copy=False)
    result = signal.astype(np.float64)
    if source.kind in "iu":
        result /= np.iinfo(source).max
    if source.kind == "u":
        result = result * 2 - 1
    if dtype.kind == "u":
        result = (result + 1) / 2
    if dtype.kind in "iu":
        result *= np.iinfo(dtype).max
    return result.astype(np.float32)
