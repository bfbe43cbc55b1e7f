"""The mel scale of pitches, and banks of triangular filters on it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dali_proxy.pipeline._arrays import Array
from dali_proxy.pipeline._imaging.native import compiled

FORMULAS = ("slaney", "htk")

# Slaney's scale: linear up to 1000 Hz, which are 15 mel; then logarithmic, with a factor of 6.4 in 27 mel.
_LINEAR = 3 / 200
_BREAK_HZ, _BREAK_MEL = 1000.0, 15.0
_LOG_STEP = np.log(6.4) / 27

#: Filters that are multiplied at once. More filters need fewer products, but multiply more weights that are 0.
_FILTERS = 16
#: Number of neighbouring spectra from which the compiled loop over filters takes less time than products of matrices.
_COLUMNS = 8


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

    Attributes:
        weights: (filters, bins) weights, float32. A filter covers a few neighbouring bins.
        bounds: first bin at or above each corner, int32; filter i covers the bins from bounds[i] to bounds[i + 2].
    """

    weights: Array
    bounds: Array

    def apply(self, spectrum: Array, axis: int, out: Array | None = None) -> Array:
        """Return weighted sums of float32 spectra, one per filter along the axis of frequencies; contiguous."""
        before, (bins, *after) = spectrum.shape[:axis], spectrum.shape[axis:]
        count, outer, inner = len(self.weights), math.prod(before), math.prod(after)
        if out is None:
            out = np.empty((*before, count, *after), np.float32)
        source, result = np.ascontiguousarray(spectrum).reshape(outer, bins, inner), out.reshape(outer, count, inner)
        if compiled is not None and inner >= _COLUMNS:
            compiled.weigh_bins(source, self.weights, self.bounds, result)
            return out
        # Frequencies that are the last axis need one product instead of one for each spectrum.
        sources, sums = (source.T, result.T) if inner == 1 else (source, result)
        with np.errstate(invalid="ignore"):
            self._multiply(sources, sums, _FILTERS)
            if not np.isfinite(result).all():  # an invalid bin spoils all filters that are multiplied with it
                self._multiply(sources, sums, 1)
        return out

    def _multiply(self, source: Array, result: Array, step: int) -> None:
        """Compute sums of (outer, bins, inner) arrays, `step` filters at a time: each time few bins have weights."""
        count = len(self.weights)
        for first in range(0, count, step):
            end = min(first + step, count)
            bins = slice(self.bounds[first], self.bounds[end + 1])
            np.matmul(self.weights[first:end, bins], source[:, bins], out=result[:, first:end])


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
    bounds = np.searchsorted(hertz, corners).tolist()
    covered = np.arange(bounds[0], bounds[-1])
    hertz = hertz[covered]
    interval = np.clip(np.searchsorted(corners, hertz, side="right") - 1, 0, count)
    rise = (hertz - corners[interval]) / (corners[interval + 1] - corners[interval])
    scales = np.append(2 / (corners[2:] - corners[:-2]) if normalize else np.ones(count), 0)
    # In interval i between two corners, filter i rises and filter i - 1 falls. The first and last rows aren't filters.
    table = np.zeros((count + 2, bins), np.float32)
    table[interval + 1, covered] = rise * scales[interval]
    table[interval, covered] = (1 - rise) * scales[interval - 1]
    return MelFilters(table[1:-1], np.array(bounds, np.int32))
