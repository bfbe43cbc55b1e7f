"""Launcher of spectrogram.cu: power spectra of the windows of signals, in one launch per batch."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._arrays import Float32s
from dali_proxy.pipeline._cuda.launch import ADDRESS, Launch, ctype
from dali_proxy.pipeline._kernels.samples import Samples

_SHARED_BYTES = 48 << 10
#: Elements that a block transforms at a time, if windows are short, and the largest number of windows.
_PER_BLOCK, _MOST_WINDOWS = 2048, 32
_MOST_BLOCKS = 4096
#: Blocks whose windows lie in device memory.
_MOST_SCRATCH_BLOCKS = 512
_COMPLEX_BYTES = 8
#: struct Signal of spectrogram.cu.
_SIGNAL = np.dtype(
    [
        *[("src", ADDRESS), ("dst", ADDRESS)],
        *((name, "i8") for name in ("length", "windows", "by_window", "by_bin")),
        ("scratch", ADDRESS),
    ]
)


class SpectrogramPlan:
    """Plan of the launch.

    Args:
        src: contiguous signals of any dtype, of one dimension.
        dst: contiguous float32 samples, of windows x bins or bins x windows.
        window: factors of the elements of a window, float32.
        step: distance between windows.
        size: size of the transform.
        power: 1 for magnitudes, 2 for their squares.
        padding: of centered windows at the ends of the signals: 1 for zeros, 2 for a reflection; 0 if all windows lie
            inside.
        time_first: whether windows are the first dimension of `dst`.
    """

    def __init__(
        self,
        src: Samples,
        dst: Samples,
        *,
        window: Float32s,
        step: int,
        size: int,
        power: int,
        padding: int,
        time_first: bool,
    ) -> None:
        windows = dst.shapes[:, 0 if time_first else 1]
        self._table = np.zeros(len(src), _SIGNAL)
        self._table["src"], self._table["dst"], self._table["length"] = src.pointers, dst.pointers, src.shapes[:, 0]
        self._table["windows"] = windows
        self._table["by_window"] = size // 2 + 1 if time_first else 1
        self._table["by_bin"] = 1 if time_first else windows
        length = size if size % 2 else size // 2
        at_once = min(max(1, _PER_BLOCK // length), _MOST_WINDOWS)
        self._block_bytes = 2 * at_once * length * _COMPLEX_BYTES
        shared = self._block_bytes <= _SHARED_BYTES
        limit = _MOST_BLOCKS if shared else max(1, _MOST_SCRATCH_BLOCKS // len(src))
        self._blocks = min(max(1, -(-int(windows.max()) // at_once)), limit)
        #: Bytes of device memory for windows.
        self.scratch_bytes = 0 if shared else self._block_bytes * self._blocks * len(src)
        self._tables = (np.ascontiguousarray(window, np.float32), _roots(size))
        self._scalars = (np.int32(len(window)), np.int32(step))
        options: dict[str, Any] = {
            "IN": ctype(src.dtype), "SIZE": size, "LENGTH": length, "RADICES": ",".join(map(str, _factors(length))),
            "WINDOWS": at_once, "POWER": power, "SHARED": int(shared), "PADDING": padding,
        }  # fmt: skip
        self._defines = tuple((name, str(value)) for name, value in options.items())

    def launch(self, scratch: int) -> Launch:
        """Return the launch; `scratch` is the address of device memory of `scratch_bytes`."""
        table = self._table
        if self.scratch_bytes:
            table["scratch"] = scratch + np.arange(len(table)) * self._block_bytes * self._blocks
        tables = (table, *self._tables)
        grid = (self._blocks, len(table))
        return Launch("audio/spectrogram.cu", "spectrogram", self._defines, tables, grid, self._scalars)


def _factors(length: int) -> list[int]:
    """Return the factors of a transform: 4 and 2 are the fastest ones."""
    found, candidate = [], 4
    while length > 1:
        if length % candidate == 0:
            found.append(candidate)
            length //= candidate
        else:
            candidate = {4: 2, 2: 3}.get(candidate, candidate + 2)
    return found or [1]


@lru_cache(maxsize=16)
def _roots(size: int) -> npt.NDArray[np.complex64]:
    return np.exp(-2j * np.pi * np.arange(size) / size).astype(np.complex64)
