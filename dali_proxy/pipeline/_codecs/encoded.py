"""Encoded images of a batch, the input of the decoders: columns of addresses and sizes, and arrays on demand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._cached_property import cached_property
from dali_proxy.pipeline._codecs.headers import read_headers

Bytes = npt.NDArray[np.uint8]


class EncodedBatch:
    """Encoded images in host memory.

    Args:
        pointers: (N,) int64, addresses of the images.
        lengths: (N,) int64, sizes of the images in bytes.
        arrays: function that returns the images as one-dimensional uint8 arrays.
        owner: object that owns their memory.

    Example:
        >>> EncodedBatch.from_arrays([np.zeros(3, np.uint8), np.zeros(5, np.uint8)]).lengths.tolist()
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
        self._create_arrays = arrays

    @classmethod
    def from_arrays(cls, arrays: Sequence[Bytes]) -> EncodedBatch:
        """Describe one-dimensional uint8 arrays. Arrays that aren't contiguous are copied."""
        arrays = [np.ascontiguousarray(array) for array in arrays]
        pointers = np.array([array.ctypes.data for array in arrays], np.int64)
        return cls(pointers, np.array([array.nbytes for array in arrays], np.int64), lambda: arrays, arrays)

    def __len__(self) -> int:
        return len(self.pointers)

    def select(self, indices: npt.NDArray[np.int64]) -> EncodedBatch:
        """Return the images at these positions, in ascending order; the batch itself if these are all."""
        if len(indices) == len(self):
            return self
        arrays = self.arrays
        return EncodedBatch(
            self.pointers[indices], self.lengths[indices], lambda: [arrays[index] for index in indices], self
        )

    @cached_property
    def arrays(self) -> Sequence[Bytes]:
        """The images, one array each."""
        return self._create_arrays()

    @cached_property
    def headers(self) -> npt.NDArray[Any]:
        """The JPEG headers of the images, as `HEADER`."""
        return read_headers(self.pointers, self.lengths)
