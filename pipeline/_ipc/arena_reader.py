"""The reader's side of the memory that carries samples: trusts no number that the writer sends."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline._ipc.errors import ProtocolError
from pipeline._ipc.memory import SharedBlock
from pipeline._kernels.samples import Samples
from pipeline.tensors.cpu import TensorListCPU

__all__ = ["ArenaReader", "Pin", "fits_numpy", "is_numpy_shape"]

Memory = npt.NDArray[np.uint8]
Pin = Callable[[Memory, Callable[[Memory], None]], None]

_MAX_SEGMENTS = 64
_EXACT = float(1 << 52)  # sizes below it are exact as float64
_LARGEST = float(1 << 48)  # what lengths of an array may multiply to, zeros left out: NumPy refuses a little more


class _Segment:
    """A segment as it was mapped, and a second array over it from when it is pinned on."""

    def __init__(self, array: Memory) -> None:
        self.array = array
        self.address = int(array.ctypes.data)
        self.pinned: Memory | None = None

    def set_pinned(self, array: Memory) -> None:
        array.setflags(write=False)
        self.pinned = array


class ArenaReader:
    """Maps the segments of one writer's arena and gives arrays over them, inside their bounds only.

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

    def attach(self, segment_id: int, fd: int, nbytes: int) -> None:
        """Map a new segment. Owns `fd` from now on.

        Raises:
            ProtocolError: the number is taken, there are too many segments or bytes, or `fd` isn't what it
                should be.
        """
        total = sum(segment.array.nbytes for segment in self._segments.values()) + nbytes
        if segment_id in self._segments or len(self._segments) >= _MAX_SEGMENTS or total > self._limit:
            os.close(fd)
            raise ProtocolError(
                f"segment {segment_id} of {nbytes} bytes: number in use, or over the limit of {self._limit}"
            )
        block = SharedBlock.attach(fd, nbytes)
        array = block.array
        block.close()
        array.setflags(write=False)
        segment = self._segments[segment_id] = _Segment(array)
        if self._pin is not None:
            self._pin(array, segment.set_pinned)

    def detach(self, segment_id: int) -> None:
        """Forget a segment.

        Raises:
            ProtocolError: there is no such segment.
        """
        if self._segments.pop(segment_id, None) is None:
            raise ProtocolError(f"segment {segment_id} is not attached")

    def view(self, segment_id: int, offset: int, shape: Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """One array over a segment.

        Raises:
            ProtocolError: it would not lie inside the segment, or isn't aligned.
        """
        dtype = np.dtype(dtype)
        if segment_id not in self._segments:
            raise ProtocolError(f"segment {segment_id} is not attached")
        segment = self._segments[segment_id].array
        nbytes = math.prod(shape) * dtype.itemsize  # Python integers: exact
        misplaced = offset < 0 or offset % dtype.itemsize or offset + nbytes > segment.nbytes
        if misplaced or not is_numpy_shape(shape):
            raise ProtocolError(f"{nbytes} bytes at offset {offset} aren't inside a segment of {segment.nbytes} bytes")
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
        segment_ids, offsets, shapes = table[:, 0], table[:, 1], np.ascontiguousarray(table[:, 2:])
        if not len(segment_ids):
            raise ProtocolError("a batch without samples")
        if (segment_ids == segment_ids[0]).all():  # mostly: a worker has few segments
            numbers, homes = segment_ids[:1].tolist(), np.zeros(len(segment_ids), np.int64)
        else:
            unique, homes = np.unique(segment_ids, return_inverse=True)
            numbers = unique.tolist()
        for segment_id in numbers:
            if segment_id not in self._segments:
                raise ProtocolError(f"segment {segment_id} is not attached")
        segments = [self._segments[segment_id] for segment_id in numbers]
        if len(segments) > 1 or not _all_lie_in(offsets, shapes, dtype.itemsize, segments[0].array.nbytes):
            room = np.array([segment.array.nbytes for segment in segments])[homes]
            good = _lie_in(offsets, shapes, dtype.itemsize, room)
            if not good.all():
                row = table[int(np.flatnonzero(~good)[0])].tolist()
                raise ProtocolError(f"a sample isn't inside its segment (segment, offset, shape: {row})")
        if len(segments) == 1:
            starts = offsets + segments[0].address
        else:
            starts = offsets + np.array([segment.address for segment in segments])[homes]
        pinned = [segment.pinned for segment in segments]
        known = [memory for memory in pinned if memory is not None]
        all_pinned = len(known) == len(pinned)
        blocks = known if all_pinned else [segment.array for segment in segments]
        batch = TensorListCPU.from_table(Samples.contiguous(starts, shapes, dtype), blocks, homes)
        batch.pinned = all_pinned
        return batch

    def close(self) -> None:
        """Forget every segment."""
        self._segments.clear()


def _all_lie_in(offsets: npt.NDArray[np.int64], shapes: npt.NDArray[np.int64], itemsize: int, room: int) -> bool:
    """Tell whether samples are all of one shape and as `_lie_in` demands, which is told faster than for each."""
    shape: list[int] = shapes[0].tolist()
    if not is_numpy_shape(shape) or not (shapes == shape).all():
        return False
    inside = offsets.min() >= 0 and int(offsets.max()) + math.prod(shape) * itemsize <= room
    return bool(inside and (itemsize == 1 or not (offsets % itemsize).any()))


def _lie_in(
    offsets: npt.NDArray[np.int64], shapes: npt.NDArray[np.int64], itemsize: int, room: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Tell which samples lie inside of so many bytes, aligned, and are of shapes that an array may have."""
    # A product of int64 could wrap around and look small. In float64 it can't; it is exact where it matters.
    nbytes = np.prod(shapes, axis=1, dtype=np.float64) * itemsize
    good: npt.NDArray[np.bool_] = (offsets >= 0) & (offsets + nbytes <= np.minimum(room, _EXACT)) & fits_numpy(shapes)
    good &= offsets % itemsize == 0
    return good


def is_numpy_shape(shape: Sequence[int]) -> bool:
    """Tell of one shape what `fits_numpy` tells of many."""
    return min(shape, default=0) >= 0 and math.prod([n or 1 for n in shape]) < _LARGEST


def fits_numpy(shapes: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Tell which rows are shapes that an array may have; one of length 0 may have others that are too large."""
    fits: npt.NDArray[np.bool_] = np.prod(np.maximum(shapes, 1), axis=1, dtype=np.float64) < _LARGEST
    return fits & (shapes >= 0).all(axis=1)
