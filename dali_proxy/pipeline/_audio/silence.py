"""Silence at the ends of signals."""

from __future__ import annotations

import numpy as np

from dali_proxy.pipeline._arrays import Array
from dali_proxy.pipeline._imaging.native import compiled
from dali_proxy.pipeline._imaging.scratch import scratch


def nonsilent_region(signal: Array, window: int, cutoff: float, reference: float | None) -> tuple[int, int]:
    """Return the start and the length of the part of a signal that isn't silent.

    The power of a window is the mean of the squares. The part begins with the first window whose power isn't below the
    cutoff, and ends with the last one.

    Args:
        signal: numbers, 1-D, not empty.
        window: length of the windows; at most the whole signal is used.
        cutoff: smallest power that isn't silence, in decibels.
        reference: power of 0 dB; None for the largest power of a window.

    Returns:
        start and length; two zeros if everything is silent.

    Example:
        >>> nonsilent_region(np.array([0, 0, 9, 9, 0]), 1, -60, None)
        (2, 2)
    """
    exact = signal.dtype.kind in "iu" and signal.dtype.itemsize <= 2  # sums of these squares fit into 64 bits
    window, factor = min(window, len(signal)), 10.0 ** (cutoff / 10)
    if compiled is not None and signal.dtype == np.float32 and signal.flags.c_contiguous:
        memory = scratch("totals", (len(signal) + 1,), np.dtype(np.float64))
        begin, end = compiled.find_sound(signal, memory, window, factor, (reference or 0.0) * window)
        return begin, end - begin
    totals, sums = scratch("sums", (2, len(signal) + 1), np.dtype(np.int64 if exact else np.float64))
    totals[0] = 0
    np.square(signal, out=totals[1:], dtype=totals.dtype)
    np.cumsum(totals, out=totals)
    sums = np.subtract(totals[window:], totals[:-window], out=sums[: len(signal) + 1 - window])
    largest = float(sums.max()) if reference is None else reference * window
    loud = sums >= largest * factor
    first = int(loud.argmax())
    if not loud[first]:
        return 0, 0
    return first, len(loud) - 1 - int(loud[::-1].argmax()) - first + window
