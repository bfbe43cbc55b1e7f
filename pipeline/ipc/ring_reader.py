"""The reader's side of the memory that carries samples: trusts no number that the writer sends."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.ipc.errors import ProtocolError
from pipeline.ipc.memory import SharedBlock
from pipeline.kernels.samples import Samples, contiguous_strides
from pipeline.tensors.cpu import TensorListCPU

__all__ = ["Pin", "RingReader", "fits_numpy"]

Memory = npt.NDArray[np.uint8]
Pin = Callable[[Memory, Callable[[Memory], None]], None]

_MAX_SEGMENTS = 64
_EXACT = float(1 << 52)  # sizes below it are exact as float64
_LARGEST = float(1 << 48)  # what lengths of an array may multiply to, zeros left out: NumPy refuses a little more


class _Segment:
    """A segment as it was mapped, and a second array over it from when it is pinned on."""

    def __init__(self, array: Memory) -> None:
        self.array = array
        self.pinned: Memory | None = None

    def set_pinned(self, array: Memory) -> None:
        array.setflags(write=False)
        self.pinned = array


class RingReader:
    """Maps the segments of one writer's ring and gives arrays over them, inside their bounds only.

    The arrays are read-only, and keep the mapping that they lie in, also when it is detached.

    Args:
        limit: bytes that the segments may have together.
        pin: called with the memory of each new segment, to register it with CUDA, and with what to call when that is
            done, on any thread: with an array over the same memory that keeps it registered.
    """

    def __init__(self, *, limit: int = 1 << 40, pin: Pin | None = None) -> None:
        self._limit = limit
        self._pin = pin
        self._segments: dict[int, _Segment] = {}

    def attach(self, ring_id: int, fd: int, nbytes: int) -> None:
        """Map a new segment. Owns `fd` from now on.

        Raises:
            ProtocolError: the number is taken, there are too many segments or bytes, or `fd` isn't what it
                should be.
        """
        total = sum(segment.array.nbytes for segment in self._segments.values()) + nbytes
        if ring_id in self._segments or len(self._segments) >= _MAX_SEGMENTS or total > self._limit:
            os.close(fd)
            raise ProtocolError(
                f"segment {ring_id} of {nbytes} bytes: number in use, or over the limit of {self._limit}"
            )
        block = SharedBlock.attach(fd, nbytes)
        array = block.array
        block.close()
        array.setflags(write=False)
        segment = self._segments[ring_id] = _Segment(array)
        if self._pin is not None:
            self._pin(array, segment.set_pinned)

    def detach(self, ring_id: int) -> None:
        """Forget a segment.

        Raises:
            ProtocolError: there is no such segment.
        """
        if self._segments.pop(ring_id, None) is None:
            raise ProtocolError(f"segment {ring_id} is not attached")

    def view(self, ring_id: int, offset: int, shape: Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """One array over a segment.

        Raises:
            ProtocolError: it would not lie inside the segment, or isn't aligned.
        """
        dtype = np.dtype(dtype)
        if ring_id not in self._segments:
            raise ProtocolError(f"segment {ring_id} is not attached")
        segment = self._segments[ring_id].array
        nbytes = math.prod(shape) * dtype.itemsize  # Python integers: exact
        misplaced = offset < 0 or offset % dtype.itemsize or offset + nbytes > segment.nbytes
        if misplaced or any(n < 0 for n in shape) or math.prod(n or 1 for n in shape) >= _LARGEST:
            raise ProtocolError(f"{nbytes} bytes at offset {offset} do not lie in a segment of {segment.nbytes} bytes")
        array: npt.NDArray[Any] = np.ndarray(shape, dtype, buffer=segment, offset=offset)
        return array

    def batch(self, table: npt.NDArray[np.int64], dtype: npt.DTypeLike) -> TensorListCPU:
        """A batch over many samples of one dtype, checked as a whole.

        Args:
            table: ``int64[n, 2 + ndim]``, a row for each sample: segment, offset in bytes, shape.
            dtype: what the samples are.

        Raises:
            ProtocolError: a row is out of bounds, or there is none.
        """
        dtype = np.dtype(dtype)
        rings, offsets, shapes = table[:, 0], table[:, 1], np.ascontiguousarray(table[:, 2:])
        if not len(rings):
            raise ProtocolError("a batch came without samples")
        if (rings == rings[0]).all():  # mostly: a worker has few segments
            numbers, homes = rings[:1], np.zeros(len(rings), np.int64)
        else:
            numbers, homes = np.unique(rings, return_inverse=True)
        for ring_id in numbers.tolist():
            if ring_id not in self._segments:
                raise ProtocolError(f"segment {ring_id} is not attached")
        pinned = [self._segments[ring_id].pinned for ring_id in numbers.tolist()]
        known = [memory for memory in pinned if memory is not None]
        all_pinned = len(known) == len(pinned)
        segments = known if all_pinned else [self._segments[ring_id].array for ring_id in numbers.tolist()]
        # A product of int64 could wrap around and look small. In float64 it can't; it is exact where it
        # matters.
        nbytes = np.prod(shapes, axis=1, dtype=np.float64) * dtype.itemsize
        room = np.array([segment.nbytes for segment in segments], np.float64)[homes]
        good = (offsets >= 0) & (offsets % dtype.itemsize == 0) & (offsets + nbytes <= np.minimum(room, _EXACT))
        good &= fits_numpy(shapes)
        if not good.all():
            row = table[int(np.flatnonzero(~good)[0])].tolist()
            raise ProtocolError(f"a sample does not lie in its segment (segment, offset, shape: {row})")
        starts = np.array([segment.ctypes.data for segment in segments], np.int64)[homes]
        samples = Samples(starts + offsets, shapes, contiguous_strides(shapes, dtype.itemsize), dtype)
        batch = TensorListCPU.from_table(samples, segments, homes)
        batch.pinned = all_pinned
        return batch

    def close(self) -> None:
        """Forget every segment."""
        self._segments.clear()


def fits_numpy(shapes: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Tell which rows are shapes that an array may have; one of length 0 may have others that are too large."""
    fits: npt.NDArray[np.bool_] = np.prod(np.maximum(shapes, 1), axis=1, dtype=np.float64) < _LARGEST
    return fits & (shapes >= 0).all(axis=1)
