"""Launcher of silence.cu: finds the part of signals that isn't silent, in three launches per batch."""

from __future__ import annotations

import numpy as np

from dali_proxy.pipeline._cuda.launch import ADDRESS, THREADS, Launch, ctype
from dali_proxy.pipeline._kernels.samples import Samples

_RUN = 512
#: struct Signal of silence.cu.
_SIGNAL = np.dtype(
    [*((name, ADDRESS) for name in ("src", "start", "length")), ("elements", "i8"), ("window", "i8"),
     ("largest", ADDRESS), ("threads", "i4"), ("has_largest", "i4"), ("reference", "f8")],
    align=True,
)  # fmt: skip


class SilencePlan:
    """Plan of the launches.

    Args:
        src: contiguous signals of one dimension, not empty.
        start: int32 samples without dimensions, for the first elements that aren't silent.
        length: the same for the numbers of elements.
        window: length of the windows; at most the whole signal is used.
        cutoff: smallest power that isn't silence, in decibels.
        reference: power of 0 dB; None for the largest power of a window.
    """

    def __init__(
        self, src: Samples, start: Samples, length: Samples, *, window: int, cutoff: float, reference: float | None
    ) -> None:
        self._table = np.zeros(len(src), _SIGNAL)
        table = self._table
        table["src"], table["start"], table["length"] = src.pointers, start.pointers, length.pointers
        table["elements"] = src.shapes[:, 0]
        table["window"] = np.minimum(window, src.shapes[:, 0])
        table["threads"] = -(-(table["elements"] - table["window"] + 1) // _RUN)
        table["has_largest"] = reference is None
        table["reference"] = (reference or 0.0) * table["window"]
        self._most = int(table["threads"].max())
        self._ratio = np.float64(10.0 ** (cutoff / 10))
        # Sums of squares of short integers are exact, as on the CPU.
        exact = src.dtype.kind in "iu" and src.dtype.itemsize <= 2
        sums = "int64" if exact else "float64"
        self._defines = (("IN", ctype(src.dtype)), ("SUM", sums), ("RUN", str(_RUN)))
        #: Bytes of device memory for the largest sum of each thread.
        self.scratch_bytes = 8 * int(table["threads"].sum())

    def launches(self, scratch: int) -> list[Launch]:
        """Return the launches in order; `scratch` is the address of device memory of `scratch_bytes`."""
        table, defines, file = self._table, self._defines, "audio/silence.cu"
        table["largest"] = scratch + 8 * (np.cumsum(table["threads"]) - table["threads"])
        grid = (-(-self._most // THREADS), len(table))
        ends = (-(-len(table) // THREADS), 1)
        return [
            Launch(file, "largest_sums", defines, (table,), grid),
            Launch(file, "find_sound", defines, (table,), grid, (self._ratio,)),
            Launch(file, "sound_lengths", defines, (table,), ends, (np.int32(len(table)),)),
        ]
