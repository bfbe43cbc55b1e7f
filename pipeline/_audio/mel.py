"""The mel scale of pitches, and banks of triangular filters on it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["FORMULAS", "apply_filters", "mel_filters"]

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


def mel_filters(
    bins: int, count: int, sample_rate: float, low: float, high: float, formula: str, *, normalize: bool
) -> list[tuple[int, Array]]:
    """Return triangular filters whose corners are evenly spaced in mel.

    Args:
        bins: number of frequencies of the spectra, from 0 to half the sample rate.
        count: number of filters.
        sample_rate: sample rate in hertz.
        low: lower corner of the first filter in hertz.
        high: upper corner of the last filter in hertz.
        formula: one of `FORMULAS`.
        normalize: whether the integral of a filter is 1, instead of its peak.

    Returns:
        for each filter, its first bin, and its weights from there on, float32.
    """
    corners = _to_hertz(np.linspace(_to_mel(low, formula), _to_mel(high, formula), count + 2), formula)
    hertz = np.arange(bins) * (sample_rate / 2 / max(1, bins - 1))
    filters = []
    for left, peak, right in zip(corners, corners[1:], corners[2:], strict=False):
        weights = np.minimum((hertz - left) / (peak - left), (right - hertz) / (right - peak))
        inside = np.flatnonzero(weights > 0)
        if not inside.size:
            filters.append((0, np.empty(0, np.float32)))
            continue
        weights = weights[inside[0] : inside[-1] + 1] * (2 / (right - left) if normalize else 1)
        filters.append((int(inside[0]), weights.astype(np.float32)))
    return filters


def apply_filters(spectrum: Array, filters: list[tuple[int, Array]], axis: int) -> Array:
    """Return the sums of an array weighted by filters along an axis, float32.

    Args:
        spectrum: float32 array.
        filters: result of `mel_filters`.
        axis: axis of the frequencies; the result has one entry per filter there.
    """
    moved = np.moveaxis(spectrum, axis, 0)
    result = np.zeros((*spectrum.shape[:axis], len(filters), *spectrum.shape[axis + 1 :]), np.float32)
    target = np.moveaxis(result, axis, 0)
    for number, (first, weights) in enumerate(filters):
        if weights.size:
            # Unlike a product of BLAS, this stays on the calling thread.
            target[number] = np.einsum("f,f...->...", weights, moved[first : first + len(weights)])
    return result
