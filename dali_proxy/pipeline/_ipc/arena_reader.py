"""Reader side of the shared memory that carries samples. It checks every number that the writer sends."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._ipc.block_allocator import compiled
from dali_proxy.pipeline._ipc.errors import ProtocolError
from dali_proxy.pipeline._ipc.memory import SharedBlock
from dali_proxy.pipeline._kernels.samples import Samples
from dali_proxy.pipeline.tensors.cpu import TensorListCPU

Memory = npt.NDArray[np.uint8]
Pin = Callable[[Memory, Callable[[Memory], None]], None]

_MAX_SEGMENTS = 64
_EXACT = float(1 << 52)  # sizes below it are exact as float64
_LARGEST = 1 << 48  # limit of the product of an array's lengths other than 0; NumPy's is a little higher


class _Segment:
    """A mapped segment, and a second array over it once it is pinned."""

    def __init__(self, array: Memory) -> None:
        self.array = array
        self.address = int(array.ctypes.data)
        self.pinned: Memory | None = None

    def set_pinned(self, array: Memory) -> None:
        array.setflags(write=False)
        self.pinned = array


class ArenaReader:
    """Maps the segments of one writer's arena, and returns arrays inside their bounds.

    The arrays are read-only. They keep their segment mapped, even after it is detached.

    Args:
        limit: largest total size of the segments, in bytes.
        pin: registers memory with CUDA; called with the memory of each new segment and a callback. It calls the
            callback, on any thread, with an array over the same memory that keeps it registered.
    """

    def __init__(self, *, limit: int = 1 << 40, pin: Pin | None = None) -> None:
        self._limit = limit
        self._pin = pin
        self._segments: dict[int, _Segment] = {}

    def pin(self, pin: Pin) -> None:
        """Pin all segments, and those that are attached later."""
        self._pin = pin
        for segment in self._segments.values():
            pin(segment.array, segment.set_pinned)

    def attach(self, segment_id: int, fd: int, nbytes: int) -> None:
        """Map a new segment. Owns `fd` from now on.

        Raises:
            ProtocolError: the number is in use, there are too many segments or bytes, or `fd` isn't such memory.
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
        """Drop a segment.

        Raises:
            ProtocolError: the segment isn't attached.
        """
        if self._segments.pop(segment_id, None) is None:
            raise ProtocolError(f"segment {segment_id} is not attached")

    def view(self, segment_id: int, offset: int, shape: Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return an array over a segment.

        Raises:
            ProtocolError: the array isn't inside the segment, or isn't aligned.
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
        """Return a batch of many samples of one dtype, and check all of them at once.

        Args:
            table: ``int64[n, 2 + ndim]``, a row for each sample: segment, offset in bytes, shape.
            dtype: element type of the samples.

        Raises:
            ProtocolError: a row is out of bounds, or the table is empty.
        """
        dtype = np.dtype(dtype)
        if not len(table):
            raise ProtocolError("a batch without samples")
        offsets, shapes = table[:, 1], np.ascontiguousarray(table[:, 2:])
        only = self._segments.get(table.item(0))  # the usual case: a worker has few segments
        if (
            compiled is not None
            and only is not None
            and compiled.lie_in(table, dtype.itemsize, only.array.nbytes, _LARGEST)
        ):
            segments, homes = [only], None
        else:
            segments, homes = self._homes(table, dtype)
        if homes is None:
            (segment,) = segments
            starts = offsets + segment.address
            all_pinned = segment.pinned is not None
            blocks = [segment.array if segment.pinned is None else segment.pinned]
        else:
            starts = offsets + np.array([segment.address for segment in segments])[homes]
            pinned = [segment.pinned for segment in segments if segment.pinned is not None]
            all_pinned = len(pinned) == len(segments)
            blocks = pinned if all_pinned else [segment.array for segment in segments]
        batch = TensorListCPU.from_table(Samples.contiguous(starts, shapes, dtype), blocks, homes)
        batch.pinned = all_pinned
        return batch

    def _homes(
        self, table: npt.NDArray[np.int64], dtype: np.dtype[Any]
    ) -> tuple[list[_Segment], npt.NDArray[np.int64] | None]:
        """Return the segments of a table, and for each row the position of its segment among them; None if it is one.

        Raises:
            ProtocolError: a row isn't inside of its segment.
        """
        segment_ids, offsets, shapes = table[:, 0], table[:, 1], np.ascontiguousarray(table[:, 2:])
        homes: npt.NDArray[np.int64] | None = None
        if (segment_ids == segment_ids[0]).all():
            numbers = segment_ids[:1].tolist()
        else:
            unique, homes = np.unique(segment_ids, return_inverse=True)
            numbers = unique.tolist()
        for segment_id in numbers:
            if segment_id not in self._segments:
                raise ProtocolError(f"segment {segment_id} is not attached")
        segments = [self._segments[segment_id] for segment_id in numbers]
        if len(segments) > 1 or not _all_lie_in(offsets, shapes, dtype.itemsize, segments[0].array.nbytes):
            room = np.array([segment.array.nbytes for segment in segments])[0 if homes is None else homes]
            good = _lie_in(offsets, shapes, dtype.itemsize, room)
            if not good.all():
                row = table[int(np.flatnonzero(~good)[0])].tolist()
                raise ProtocolError(f"a sample isn't inside its segment (segment, offset, shape: {row})")
        return segments, homes

    def close(self) -> None:
        """Drop all segments."""
        self._segments.clear()


def _all_lie_in(offsets: npt.NDArray[np.int64], shapes: npt.NDArray[np.int64], itemsize: int, room: int) -> bool:
    """Return whether all samples satisfy `_lie_in` and have one shape, or one dimension. This is faster."""
    if shapes.shape[1] == 1 and offsets.min() >= 0 and offsets.max() <= room:
        lengths = shapes[:, 0]
        fit = lengths.min() >= 0 and lengths.max() < _LARGEST and (offsets + lengths * itemsize).max() <= room
        return bool(fit and (itemsize == 1 or not (offsets % itemsize).any()))
    shape: list[int] = shapes[0].tolist()
    if not is_numpy_shape(shape) or not (shapes == shape).all():
        return False
    inside = offsets.min() >= 0 and int(offsets.max()) + math.prod(shape) * itemsize <= room
    return bool(inside and (itemsize == 1 or not (offsets % itemsize).any()))


def _lie_in(
    offsets: npt.NDArray[np.int64], shapes: npt.NDArray[np.int64], itemsize: int, room: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Return which samples are aligned, lie inside `room` bytes, and have shapes that NumPy allows."""
    # A product of int64 could wrap around and look small. In float64 it can't; it is exact where it matters.
    nbytes = np.prod(shapes, axis=1, dtype=np.float64) * itemsize
    good: npt.NDArray[np.bool_] = (offsets >= 0) & (offsets + nbytes <= np.minimum(room, _EXACT)) & fits_numpy(shapes)
    good &= offsets % itemsize == 0
    return good


def is_numpy_shape(shape: Sequence[int]) -> bool:
    """Return whether NumPy allows a shape; see `fits_numpy`."""
    return min(shape, default=0) >= 0 and math.prod([n or 1 for n in shape]) < _LARGEST


def fits_numpy(shapes: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return which rows are shapes that NumPy allows. A length of 0 doesn't make the other lengths valid."""
    fits: npt.NDArray[np.bool_] = np.prod(np.maximum(shapes, 1), axis=1, dtype=np.float64) < _LARGEST
    return fits & (shapes >= 0).all(axis=1)
