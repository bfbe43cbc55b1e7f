"""The mel scale of pitches, and banks of triangular filters on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["FORMULAS", "MelFilters", "mel_filters"]

Array = npt.NDArray[Any]

FORMULAS = ("slaney", "htk")

# Slaney's scale: linear up to 1000 Hz, which are 15 mel; then logarithmic, with a factor of 6.4 in 27 mel.
_LINEAR = 3 / 200
_BREAK_HZ, _BREAK_MEL = 1000.0, 15.0
_LOG_STEP = np.log(6.4) / 27


def _to_mel(hertz: float, formula: str) -> float:
    if formula == "htk":
        return float(2595 * np.log10(1 + hertz / 700))
    return hertz * _LINEAR if hertz < _BREAK_HZ else float(_BREAK_MEL + np.log(hertz / _BREAK_HZ) / _LOG_STEP)


def _to_hertz(mel: Array, formula: str) -> Array:
    if formula == "htk":
        return np.asarray(700 * (10 ** (mel / 2595) - 1))
    return np.where(mel < _BREAK_MEL, mel / _LINEAR, _BREAK_HZ * np.exp((mel - _BREAK_MEL) * _LOG_STEP))


@dataclass(frozen=True)
class MelFilters:
    """Triangular filters whose corners are evenly spaced in mel.

    The corners of all filters divide the frequencies into intervals. In interval i, filter i rises and filter i - 1
    falls. So each frequency counts twice, however many filters there are.

    Attributes:
        count: number of filters.
        bins: range of the bins that any filter covers.
        rising: weight of each of these bins for the filter that rises, float32.
        falling: weight for the filter that falls.
        intervals: intervals that contain bins.
        starts: first bin of each of these, counted from the start of `bins`.
    """

    count: int
    bins: slice
    rising: Array
    falling: Array
    intervals: Array
    starts: Array

    def apply(self, spectrum: Array, axis: int) -> Array:
        """Return the weighted sums of a float32 array, with one entry per filter along the axis of the frequencies."""
        result = np.zeros((*spectrum.shape[:axis], self.count, *spectrum.shape[axis + 1 :]), np.float32)
        if self.starts.size:
            target, covered = np.moveaxis(result, axis, 0), np.moveaxis(spectrum, axis, 0)[self.bins]
            column = (-1, *[1] * (spectrum.ndim - 1))
            rising = np.add.reduceat(covered * self.rising.reshape(column), self.starts)
            falling = np.add.reduceat(covered * self.falling.reshape(column), self.starts)
            rises, falls = self.intervals < self.count, self.intervals > 0
            target[self.intervals[rises]] += rising[rises]
            target[self.intervals[falls] - 1] += falling[falls]
        return result


def mel_filters(
    bins: int, count: int, sample_rate: float, low: float, high: float, formula: str, *, normalize: bool
) -> MelFilters:
    """Return filters for spectra.

    Args:
        bins: number of frequencies of the spectra, from 0 to half the sample rate.
        count: number of filters.
        sample_rate: sample rate in hertz.
        low: lower corner of the first filter in hertz.
        high: upper corner of the last filter in hertz.
        formula: one of `FORMULAS`.
        normalize: whether the integral of a filter is 1, instead of its peak.
    """
    corners = _to_hertz(np.linspace(_to_mel(low, formula), _to_mel(high, formula), count + 2), formula)
    hertz = np.arange(bins) * (sample_rate / 2 / max(1, bins - 1))
    first, end = np.searchsorted(hertz, corners[[0, -1]]).tolist()
    hertz = hertz[first:end]
    interval = np.clip(np.searchsorted(corners, hertz, side="right") - 1, 0, count)
    rise = (hertz - corners[interval]) / (corners[interval + 1] - corners[interval])
    scales = np.append(2 / (corners[2:] - corners[:-2]) if normalize else np.ones(count), 0)
    intervals, starts = np.unique(interval, return_index=True)
    return MelFilters(
        count=count,
        bins=slice(first, end),
        rising=(rise * scales[interval]).astype(np.float32),
        falling=((1 - rise) * scales[interval - 1]).astype(np.float32),
        intervals=intervals,
        starts=starts,
    )
