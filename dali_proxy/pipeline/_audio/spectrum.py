"""Fourier transforms of real signals: power spectra and spectrograms."""

from __future__ import annotations

import cv2
import numpy as np

from dali_proxy.pipeline._arrays import Array
from dali_proxy.pipeline._imaging.native import compiled
from dali_proxy.pipeline._imaging.scratch import scratch

_LEAST = 4  # size of a transform by OpenCV, which takes a sixth of the time of NumPy's
# Elements of the windows that are transformed at a time, so that long signals don't need much memory.
_BLOCK = 1 << 20


def hann_window(length: int) -> Array:
    """Return a symmetric Hann window without zeros at its ends, float32 of shape (length,)."""
    phases = 2 * np.pi / length * (np.arange(length) + 0.5)
    return np.asarray(0.5 - 0.5 * np.cos(phases), np.float32)


def power_spectrum(signal: Array, size: int, power: int, axis: int = -1) -> Array:
    """Return the magnitudes of the non-negative frequencies of a signal, or their squares.

    Args:
        signal: float32 array of any shape.
        size: size of the transform; the signal is truncated to it or padded with zeros at its end.
        power: 1 for magnitudes, 2 for squares.
        axis: axis to transform; the result has an extent of ``size // 2 + 1`` there.
    """
    moved = np.moveaxis(signal, axis, -1)
    used = min(size, moved.shape[-1])
    rows = np.zeros((*moved.shape[:-1], size), np.float32)
    rows[..., :used] = moved[..., :used]
    powers = np.empty((*moved.shape[:-1], size // 2 + 1), np.float32)
    _powers(rows.reshape(-1, size), power, powers.reshape(-1, powers.shape[-1]))
    return np.moveaxis(powers, -1, axis)


def _powers(rows: Array, power: int, result: Array) -> None:
    """Write the magnitudes, or their squares, of the frequencies of each row, float32 of shape (rows, size)."""
    count, size = rows.shape
    if not count:
        return
    if size < _LEAST:
        np.square(np.abs(np.fft.rfft(rows)), out=result)
    else:
        # Each row has the real part of frequency 0, real and imaginary parts in turn, and the last real part if any.
        waves = cv2.dft(rows, scratch("waves", rows.shape, np.float32), flags=cv2.DFT_ROWS)
        if compiled is not None:
            compiled.wave_powers(waves, result, power == 1)
            return
        np.square(waves, out=waves)
        pairs = (size - 1) // 2
        result[:, 0], result[:, -1] = waves[:, 0], waves[:, -1]
        np.add(waves[:, 1 : 2 * pairs : 2], waves[:, 2 : 2 * pairs + 1 : 2], out=result[:, 1 : pairs + 1])
    if power == 1:
        np.sqrt(result, out=result)


def window_count(length: int, window: int, step: int, *, centered: bool) -> int:
    """Return the number of windows in a signal."""
    return length // step + 1 if centered else max(0, length - window) // step + (length >= window)


def spectrogram(
    signal: Array, window: Array, step: int, size: int, power: int, *, centered: bool, reflected: bool, by_bin: bool
) -> Array:
    """Return the spectra of the windows of a signal, float32 of shape (windows, size // 2 + 1), or transposed.

    Args:
        signal: float32 array of shape (length,), not empty.
        window: factors of the samples of a window, float32.
        step: distance between windows.
        size: size of the transform; windows are padded with zeros to it.
        power: 1 for magnitudes, 2 for squares.
        centered: whether window i is centered at ``i * step``, instead of starting there.
        reflected: whether centered windows mirror the signal at its ends, instead of padding it with zeros.
        by_bin: whether the result is transposed: a row for each frequency.

    Example:
        >>> signal, options = np.ones(8, np.float32), {"centered": False, "reflected": True, "by_bin": False}
        >>> spectrogram(signal, hann_window(4), 4, 4, 2, **options).shape
        (2, 3)
    """
    length, bins = len(window), size // 2 + 1
    count = window_count(len(signal), length, step, centered=centered)
    result = np.empty((bins, count) if by_bin else (count, bins), np.float32)
    powers = result.T if by_bin else result
    rows = scratch("windows", (min(count, max(1, _BLOCK // size)), size), np.float32)
    for start in range(0, count, len(rows) or 1):
        part = rows[: min(len(rows), count - start)]
        _take_windows(signal, window, start * step - centered * (length // 2), step, reflected, part)
        _powers(part, power, powers[start : start + len(part)])
    return result


def _take_windows(signal: Array, window: Array, first: int, step: int, reflected: bool, rows: Array) -> None:
    """Write the product of each window of a signal and the factors, and then zeros, to a row.

    Windows begin at `first`, and may exceed the signal: it is mirrored at its ends, or padded with zeros.
    """
    if compiled is not None:
        compiled.take_windows(np.ascontiguousarray(signal), window, first, step, reflected, rows)
        return
    length = len(window)
    end = first + (len(rows) - 1) * step + length
    before, after = max(0, -first), max(0, end - len(signal))
    padded = np.pad(signal, (before, after), mode="reflect" if reflected else "constant")
    windows = np.lib.stride_tricks.sliding_window_view(padded[before + first :], length)[::step][: len(rows)]
    np.multiply(windows, window, out=rows[:, :length])
    rows[:, length:] = 0
