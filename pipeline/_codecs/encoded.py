"""Encoded images of a batch, as the decoders take them: columns of addresses and sizes, and arrays on demand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline._codecs.headers import read_headers

__all__ = ["EncodedBatch"]

Bytes = npt.NDArray[np.uint8]


class EncodedBatch:
    """Encoded images in host memory.

    Args:
        pointers: (N,) int64, their addresses.
        lengths: (N,) int64, their sizes in bytes.
        arrays: returns them as one-dimensional uint8 arrays.
        owner: what keeps their memory.

    Example:
        >>> EncodedBatch.of([np.zeros(3, np.uint8), np.zeros(5, np.uint8)]).lengths.tolist()
        [3, 5]
    """

    def __init__(
        self,
        pointers: npt.NDArray[np.int64],
        lengths: npt.NDArray[np.int64],
        arrays: Callable[[], Sequence[Bytes]],
        owner: Any = None,
    ) -> None:
        self.pointers = pointers
        self.lengths = lengths
        self.owner = owner
        self._make_arrays = arrays

    @classmethod
    def of(cls, arrays: Sequence[Bytes]) -> EncodedBatch:
        """Describe arrays: one-dimensional, of uint8. Those that aren't contiguous are copied."""
        arrays = [np.ascontiguousarray(array) for array in arrays]
        pointers = np.array([array.ctypes.data for array in arrays], np.int64)
        return cls(pointers, np.array([array.nbytes for array in arrays], np.int64), lambda: arrays, arrays)

    def __len__(self) -> int:
        return len(self.pointers)

    @cached_property
    def arrays(self) -> Sequence[Bytes]:
        """The images one by one."""
        return self._make_arrays()

    @cached_property
    def headers(self) -> npt.NDArray[Any]:
        """What the headers of those that are JPEGs say, as `HEADER`."""
        return read_headers(self.pointers, self.lengths)
