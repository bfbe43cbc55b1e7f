"""Resampling of signals by a windowed sinc filter, and the ranges of audio dtypes."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from dali_proxy.pipeline._arrays import Array
from dali_proxy.pipeline._imaging.native import compiled

# Entries of the filter's table for each lobe.
_ENTRIES = 32
# Filters for lower cutoffs would need too much memory.
_LEAST_CUTOFF = 1e-4
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


class SincFilter(NamedTuple):
    """A low-pass filter for one ratio of sample rates: a sinc with a Hann window, linear between entries of a table.

    Attributes:
        weights: weights of the inputs around an output, (phases, taps), float32. A phase is a position of the output
            between two inputs. The middle taps are those of these two inputs.
        slopes: differences of the weights to those of the next phase.
    """

    weights: Array
    slopes: Array

    @classmethod
    def of(cls, quality: float, scale: float, antialias: bool) -> SincFilter:
        """Return a filter.

        Args:
            quality: 0 to 100: 3, 16 and 64 lobes for 0, 50 and 100.
            scale: ratio of the sample rates, output to input.
            antialias: whether to remove frequencies that the output can't represent. Half of the amplitude passes at
                the highest frequency of the output.
        """
        lobes = round(0.007 * quality**2 - 0.09 * quality + 3)
        return _filter(lobes, max(scale, _LEAST_CUTOFF) if antialias and scale < 1 else 1.0)

    def taps(self, position: Array) -> tuple[Array, Array]:
        """Return the input sample before each position, and the weights of the samples around it."""
        before = np.floor(position).astype(np.intp)
        phase = (position - before) * len(self.weights)
        entry = np.minimum(phase.astype(np.intp), len(self.weights) - 1)
        taps = self.slopes[entry]
        taps *= (phase - entry).astype(np.float32)[:, None]
        taps += self.weights[entry]
        return before, taps


@lru_cache(maxsize=8)
def _filter(lobes: int, cutoff: float) -> SincFilter:
    """Return the filter for a part of the input's frequencies.

    With a lower cutoff, lobes have more inputs, and fewer phases have the same precision.
    """
    reach, phases = math.ceil(lobes / cutoff), math.ceil(_ENTRIES * cutoff)
    distance = cutoff * np.abs(np.arange(1 - reach, reach + 1) - np.arange(phases + 1)[:, None] / phases)
    # The window ends half an entry beyond the last lobe.
    window = 0.5 + 0.5 * np.cos(np.pi * distance / (lobes + 0.5 / _ENTRIES))
    weights = cutoff * np.where(distance < lobes, np.sinc(distance) * window, 0)
    return SincFilter(weights[:-1].astype(np.float32), np.diff(weights, axis=0).astype(np.float32))


def resample(signal: Array, scale: float, length: int, quality: float, antialias: bool = True) -> Array:
    """Return a signal at another sample rate.

    Output i lies at position ``i / scale`` of the input. The signal is 0 outside.

    Args:
        signal: float32 array of shape (samples, channels).
        scale: ratio of the sample rates, output to input.
        length: number of output samples.
        quality: 0 to 100; determines the length of the filter.
        antialias: whether to remove frequencies that the output can't represent. Otherwise, they are folded to lower
            ones, as in DALI.

    Returns:
        float32 array of shape (length, channels).
    """
    if scale == 1 and length == len(signal):
        return signal
    result = np.empty((length, signal.shape[1]), np.float32)
    if not length:
        return result
    if (matrices := _matrices(scale, quality, antialias)) is not None:
        for source, target in zip(signal.T, result.T, strict=True):
            matrices.apply(source, target)
        return result
    chosen = SincFilter.of(quality, scale, antialias)
    if compiled is not None:
        compiled.resample_signal(np.ascontiguousarray(signal), chosen.weights, chosen.slopes, scale, result)
        return result
    count = chosen.weights.shape[1]
    padded = np.pad(signal, ((count // 2, count // 2 + 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, count, axis=0)
    block = max(1, _BLOCK // count)
    for start in range(0, length, block):
        before, taps = chosen.taps(np.arange(start, min(start + block, length)) / scale)
        np.einsum("nt,nct->nc", taps, windows[before + 1], out=result[start : start + block])
    return result


@lru_cache(maxsize=8)
def _matrices(scale: float, quality: float, antialias: bool) -> _Matrices | None:
    """Return the matrices for a ratio of sample rates after whose period positions repeat; None if it is too long."""
    period = _period(scale)
    return None if period is None else _Matrices(SincFilter.of(quality, scale, antialias), period)


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


class _Matrices:
    """A matrix for every `_GROUP` outputs of a period: outputs at one place of all periods have the same weights.

    Args:
        chosen: filter.
        period: numbers of outputs and inputs.

    Attributes:
        groups: the first input of each matrix, and the weights (inputs, outputs).
    """

    def __init__(self, chosen: SincFilter, period: tuple[int, int]) -> None:
        self._period = outputs, inputs = period
        self.groups: list[tuple[int, Array]] = []
        count = chosen.weights.shape[1]
        for start in range(0, outputs, _GROUP):
            # A product of whole numbers, so that positions are rounded once.
            numbers = np.arange(start, min(start + _GROUP, outputs)) * inputs
            before, taps = chosen.taps(numbers / outputs)
            first = int(before[0])
            matrix = np.zeros((int(before[-1]) - first + count, len(numbers)), np.float32)
            rows = (before - first)[:, None] + np.arange(count)
            matrix[rows, np.arange(len(numbers))[:, None]] = taps
            self.groups.append((first + 1 - count // 2, matrix))

    def apply(self, signal: Array, result: Array) -> None:
        """Resample one channel."""
        outputs, inputs = self._period
        count, front = -(-len(result) // outputs), -self.groups[0][0]
        widest = max(len(matrix) for _, matrix in self.groups)
        padded = np.zeros(front + max(len(signal), count * inputs) + widest + 1, np.float32)
        padded[front : front + len(signal)] = signal
        periods = np.empty((count, outputs), np.float32)
        for group, (first, matrix) in enumerate(self.groups):
            source = padded[front + first :]
            rows = np.lib.stride_tricks.as_strided(source, (count, len(matrix)), (4 * inputs, 4), writeable=False)
            for start in range(0, count, _GROUP):  # OpenBLAS starts threads for large products
                part = np.ascontiguousarray(rows[start : start + _GROUP])
                np.matmul(part, matrix, out=periods[start : start + _GROUP, group * _GROUP : (group + 1) * _GROUP])
        result[:] = periods.reshape(-1)[: len(result)]


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
