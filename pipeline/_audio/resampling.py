"""Resampling of signals by a windowed sinc filter, and the ranges of audio dtypes."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["check_quality", "filter_table", "range_factors", "resample", "to_range"]

Array = npt.NDArray[Any]

# Entries of the filter's table between two input samples; the filter is linear between entries.
_PHASES = 32
# Weights that are computed at a time, so that long signals don't need much memory.
_BLOCK = 1 << 18
# Ratios of sample rates that are computed by matrices: the numbers of the fraction, and the smallest ratio. Outputs of
# a matrix, and periods that are multiplied at a time.
_LONGEST_PERIOD, _LEAST_SCALE = 4096, 0.05
_GROUP = 64


def check_quality(quality: float) -> float:
    """Return the quality of a filter.

    Raises:
        ValueError: it isn't from 0 to 100.
    """
    if not 0 <= quality <= 100:
        raise ValueError(f"``quality`` out of range: {quality:g} Valid range is [0..100]")
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


def filter_table(quality: float) -> tuple[Array, Array]:
    """Return the weights of the inputs around an output for each phase, and their differences to the next phase."""
    return _filters(_lobes(quality))


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
    result = np.empty((length, signal.shape[1]), np.float32)
    if (period := _period(scale)) is not None and length:
        for source, target in zip(signal.T, result.T, strict=True):
            _by_matrices(source, target, period, lobes)
        return result
    padded = np.pad(signal, ((lobes, lobes + 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * lobes, axis=0)
    block = max(1, _BLOCK // (2 * lobes))
    for start in range(0, length, block):
        before, taps = _taps(np.arange(start, min(start + block, length)) / scale, lobes)
        np.einsum("nt,nct->nc", taps, windows[before + 1], out=result[start : start + block])
    return result


def _taps(position: Array, lobes: int) -> tuple[Array, Array]:
    """Return the input sample before each position, and the weights of the 2 * lobes samples around it."""
    weights, slopes = _filters(lobes)
    before = np.floor(position).astype(np.intp)
    phase = (position - before) * _PHASES
    entry = phase.astype(np.intp)
    taps = slopes[entry]
    taps *= (phase - entry).astype(np.float32)[:, None]
    taps += weights[entry]
    return before, taps


@lru_cache(maxsize=64)
def _period(scale: float) -> tuple[int, int] | None:
    """Return numbers of outputs and inputs after which positions repeat; None if they are too many."""
    if not _LEAST_SCALE < scale < 1 / _LEAST_SCALE:
        return None
    fraction = Fraction(scale).limit_denominator(_LONGEST_PERIOD)
    outputs, inputs = fraction.numerator, fraction.denominator
    if abs(outputs / inputs - scale) > 1e-15 * scale or outputs > _LONGEST_PERIOD:
        return None
    repeated = max(1, min(_GROUP // outputs, 2 * _GROUP // inputs))  # so that matrices aren't narrow
    return repeated * outputs, repeated * inputs


@lru_cache(maxsize=8)
def _matrices(period: tuple[int, int], lobes: int) -> list[tuple[int, Array]]:
    """Return a matrix for every `_GROUP` outputs of a period: its first input, and the weights (inputs, outputs)."""
    (outputs, inputs), found = period, []
    for start in range(0, outputs, _GROUP):
        # A product of whole numbers, so that positions are rounded once.
        numbers = np.arange(start, min(start + _GROUP, outputs)) * inputs
        before, taps = _taps(numbers / outputs, lobes)
        first = int(before[0])
        matrix = np.zeros((int(before[-1]) - first + 2 * lobes, len(numbers)), np.float32)
        rows = (before - first)[:, None] + np.arange(2 * lobes)
        matrix[rows, np.arange(len(numbers))[:, None]] = taps
        found.append((first + 1 - lobes, matrix))
    return found


def _by_matrices(signal: Array, result: Array, period: tuple[int, int], lobes: int) -> None:
    """Resample one channel: the outputs at one place of all periods have the same weights."""
    matrices = _matrices(period, lobes)
    widest = max(len(matrix) for _, matrix in matrices)
    step, inputs = period
    count = -(-len(result) // step)
    padded = np.zeros(lobes + max(len(signal), count * inputs) + widest + 1, np.float32)
    padded[lobes : lobes + len(signal)] = signal
    outputs = np.empty((count, step), np.float32)
    for group, (first, matrix) in enumerate(matrices):
        source = padded[lobes + first :]
        rows = np.lib.stride_tricks.as_strided(source, (count, len(matrix)), (4 * inputs, 4), writeable=False)
        for start in range(0, count, _GROUP):  # OpenBLAS starts threads for large products
            part = np.ascontiguousarray(rows[start : start + _GROUP])
            np.matmul(part, matrix, out=outputs[start : start + _GROUP, group * _GROUP : (group + 1) * _GROUP])
    result[:] = outputs.reshape(-1)[: len(result)]


def to_range(signal: Array, dtype: np.dtype[Any]) -> Array:
    """Return a signal in the range of another dtype, as float32 values that aren't rounded.

    The range of real numbers is -1 to 1. The middle of the range of unsigned integers is silence.

    Example:
        >>> to_range(np.array([0, 128, 255], np.uint8), np.dtype(np.int8))
        array([-127.        ,    0.49803922,  127.        ], dtype=float32)
    """
    if signal.dtype == dtype:
        return signal.astype(np.float32, copy=False)
    gain, offset = range_factors(signal.dtype, dtype)
    return (signal * gain + offset).astype(np.float32)


def range_factors(source: np.dtype[Any], dtype: np.dtype[Any]) -> tuple[float, float]:
    """Return a factor and an offset that convert values from the range of one dtype to that of another."""
    if source == dtype:
        return 1.0, 0.0
    gain, offset = 1.0, 0.0
    if source.kind in "iu":
        gain /= np.iinfo(source).max
    if source.kind == "u":
        gain, offset = gain * 2, -1.0
    if dtype.kind == "u":
        gain, offset = gain / 2, (offset + 1) / 2
    if dtype.kind in "iu":
        gain, offset = gain * np.iinfo(dtype).max, offset * np.iinfo(dtype).max
    return gain, offset
