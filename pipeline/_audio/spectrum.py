"""Fourier transforms of real signals: power spectra and spectrograms."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["hann_window", "power_spectrum", "spectrogram", "window_count"]

Array = npt.NDArray[Any]

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
    waves = np.fft.rfft(signal, size, axis)
    result = np.square(waves.real)
    result += np.square(waves.imag)
    return np.asarray(np.sqrt(result, out=result) if power == 1 else result)


def window_count(length: int, window: int, step: int, *, centered: bool) -> int:
    """Return the number of windows in a signal."""
    return length // step + 1 if centered else max(0, length - window) // step + (length >= window)


def spectrogram(
    signal: Array, window: Array, step: int, size: int, power: int, *, centered: bool, reflected: bool
) -> Array:
    """Return the spectra of the windows of a signal, float32 of shape (windows, size // 2 + 1).

    Args:
        signal: float32 array of shape (length,), not empty.
        window: factors of the samples of a window, float32.
        step: distance between windows.
        size: size of the transform; windows are padded with zeros to it.
        power: 1 for magnitudes, 2 for squares.
        centered: whether window i is centered at ``i * step``, instead of starting there.
        reflected: whether centered windows mirror the signal at its ends, instead of padding it with zeros.

    Example:
        >>> spectrogram(np.ones(8, np.float32), hann_window(4), 4, 4, 2, centered=False, reflected=True).shape
        (2, 3)
    """
    length = len(window)
    count = window_count(len(signal), length, step, centered=centered)
    if centered:
        signal = np.pad(signal, (length // 2, length - length // 2), mode="reflect" if reflected else "constant")
    windows = np.lib.stride_tricks.sliding_window_view(signal, length)[::step][:count]
    result = np.empty((count, size // 2 + 1), np.float32)
    block = max(1, _BLOCK // size)
    for start in range(0, count, block):
        part = slice(start, start + block)
        result[part] = power_spectrum(windows[part] * window, size, power)
    return result
