"""Description of a batch for kernels: columns of pointers, shapes and strides."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._arrays import Int64s
from dali_proxy.pipeline._cached_property import cached_property
from dali_proxy.pipeline._imaging.native import compiled
from dali_proxy.pipeline._native import find_compiled
from dali_proxy.pipeline.errors import PipelineError

native = find_compiled("_cuda")

_KIND = operator.attrgetter("dtype", "ndim")


def contiguous_strides(shapes: Int64s, itemsize: int) -> Int64s:
    """Return the C-contiguous strides, in bytes, of an (N, ndim) table of shapes."""
    strides = np.empty(shapes.shape, np.int64)
    strides[:] = itemsize
    if shapes.shape[1] == 2:
        strides[:, 0] *= shapes[:, 1]
    elif shapes.shape[1] > 2:
        strides[:, :-1] *= np.cumprod(shapes[:, :0:-1], axis=1)[:, ::-1]
    return strides


@dataclass(frozen=True, eq=False)
class Samples:
    """Description of a ragged batch in memory. The creator of this object keeps the memory alive.

    The columns must not change, because derived values are cached.

    Attributes:
        pointers: (N,) int64, address of the first element of each sample.
        shapes: (N, ndim) int64.
        strides: (N, ndim) int64, in bytes; may be negative or zero.
        dtype: element type of all samples.
    """

    pointers: Int64s
    shapes: Int64s
    strides: Int64s
    dtype: np.dtype[Any]

    @classmethod
    def from_arrays(cls, arrays: Sequence[Any]) -> Samples:
        """Describe a non-empty sequence of CuPy or NumPy arrays of one dtype and ndim.

        Raises:
            PipelineError: the arrays differ in dtype or ndim, or the sequence is empty.

        Example:
            >>> Samples.from_arrays([np.zeros((2, 3)), np.zeros((4, 3))]).shapes.tolist()
            [[2, 3], [4, 3]]
        """
        if not arrays:
            raise PipelineError("a batch needs at least one sample")
        dtype, ndim = arrays[0].dtype, arrays[0].ndim
        if len(set(map(_KIND, arrays))) > 1:
            for index, array in enumerate(arrays):
                if array.dtype != dtype or array.ndim != ndim:
                    raise PipelineError(
                        f"sample {index} is {array.dtype} with {array.ndim} dimensions, "
                        f"sample 0 is {dtype} with {ndim}: a batch must have one dtype and number of dimensions"
                    )
        pointers, shapes, strides = np.empty(len(arrays), np.int64), *np.empty((2, len(arrays), ndim), np.int64)
        if native is None or not native.describe(arrays, pointers, shapes, strides):
            pointers[:] = [_pointer(array) for array in arrays]
            shapes[:] = [array.shape for array in arrays]
            strides[:] = [array.strides for array in arrays]
        return cls(pointers, shapes, strides, np.dtype(dtype))

    @classmethod
    def contiguous(cls, pointers: Int64s, shapes: Int64s, dtype: Any) -> Samples:
        """Describe C-contiguous samples, for which `is_contiguous` needs no check."""
        strides = contiguous_strides(shapes, dtype.itemsize)
        samples = cls(pointers, shapes, strides, dtype)
        samples.__dict__["_contiguous"] = True
        if shapes.shape[1]:
            samples.__dict__["sizes"] = shapes[:, 0] * strides[:, 0]
        return samples

    @classmethod
    def dense(cls, array: Any) -> Samples:
        """Describe an array whose first dimension is the batch."""
        shape, strides = array.shape, array.strides
        count, ndim = shape[0], len(shape) - 1
        samples = cls(
            _pointer(array) + np.arange(count, dtype=np.int64) * strides[0],
            _repeated(shape[1:], count, ndim),
            _repeated(strides[1:], count, ndim),
            np.dtype(array.dtype),
        )
        if array.flags.c_contiguous:
            samples.__dict__["_contiguous"] = True
        return samples

    @classmethod
    def packed(cls, pointer: int, shapes: Int64s, dtype: npt.DTypeLike, alignment: int = 256) -> tuple[Samples, int]:
        """Describe contiguous samples that lie one after the other from `pointer` on.

        Returns:
            The samples, and the number of bytes from `pointer` to their end.
        """
        kind = np.dtype(dtype)
        if compiled is not None:
            shapes = np.ascontiguousarray(shapes, np.int64)
            samples = cls(np.empty(len(shapes), np.int64), shapes, np.empty(shapes.shape, np.int64), kind)
            samples.__dict__["_contiguous"] = True
            columns = samples.pointers, samples.strides
            return samples, compiled.place_samples(shapes, pointer, kind.itemsize, alignment, *columns)
        sizes = np.prod(shapes, axis=1, dtype=np.int64) * kind.itemsize
        room = -(-sizes // alignment) * alignment
        offsets = np.concatenate(([0], np.cumsum(room)))
        return cls.contiguous(pointer + offsets[:-1], shapes, kind), int(offsets[-1])

    def __len__(self) -> int:
        return len(self.pointers)

    @property
    def ndim(self) -> int:
        return int(self.shapes.shape[1])

    @cached_property
    def sizes(self) -> Int64s:
        """Number of bytes of each sample's elements, (N,)."""
        return np.multiply.reduce(self.shapes, axis=1, dtype=np.int64) * self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Number of bytes of all elements."""
        return sum(self.sizes.tolist())  # faster than NumPy for a few hundred samples

    def take(self, indices: Int64s | slice) -> Samples:
        """Return a selection of the samples."""
        samples = Samples(self.pointers[indices], self.shapes[indices], self.strides[indices], self.dtype)
        if self.__dict__.get("_contiguous"):
            samples.__dict__["_contiguous"] = True
        return samples

    @classmethod
    def concatenate(cls, parts: Sequence[Samples]) -> Samples:
        """Return the samples of several batches of one dtype and number of dimensions, one batch after the other."""
        samples = cls(
            np.concatenate([part.pointers for part in parts]),
            np.concatenate([part.shapes for part in parts]),
            np.concatenate([part.strides for part in parts]),
            parts[0].dtype,
        )
        if all(part.__dict__.get("_contiguous") for part in parts):
            samples.__dict__["_contiguous"] = True
        return samples

    def folded(self) -> Samples:
        """Return contiguous samples with at most three dimensions: all outer ones as one, and the last two as one."""
        if self.ndim < 3:
            return self
        outer, row, width = self.shapes[:, :-3].prod(axis=1), self.shapes[:, -3], self.shapes[:, -2:].prod(axis=1)
        return Samples.contiguous(self.pointers, np.stack([outer, row, width], axis=1), self.dtype)

    def around(self, axis: int) -> Samples:
        """Return contiguous samples with three dimensions: all before an axis, this axis, and all behind it."""
        parts = self.shapes[:, :axis], self.shapes[:, axis : axis + 1], self.shapes[:, axis + 1 :]
        return Samples.contiguous(self.pointers, np.stack([part.prod(axis=1) for part in parts], axis=1), self.dtype)

    def positions(self, axes: Sequence[int]) -> tuple[Int64s, Int64s]:
        """Return all positions along axes: the index of the sample of each, and the position, (M, axes)."""
        counts = np.prod(self.shapes[:, axes], axis=1, dtype=np.int64)
        owners = np.repeat(np.arange(len(self)), counts)
        numbers = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
        positions = np.empty((len(owners), len(axes)), np.int64)
        for column in reversed(range(len(axes))):
            numbers, positions[:, column] = np.divmod(numbers, self.shapes[owners, axes[column]])
        return owners, positions

    def offsets(self, owners: Int64s, positions: Int64s, axes: Sequence[int]) -> Int64s:
        """Return the distances in bytes of `positions` from the begins of their samples, (M,)."""
        return (positions * self.strides[owners[:, None], axes]).sum(axis=1)

    def parts(self, owners: Int64s, positions: Int64s, axes: Sequence[int]) -> Samples:
        """Return the parts of samples at `positions`, without these axes."""
        kept = [axis for axis in range(self.ndim) if axis not in axes]
        pointers = self.pointers[owners] + self.offsets(owners, positions, axes)
        return Samples(pointers, self.shapes[owners[:, None], kept], self.strides[owners[:, None], kept], self.dtype)

    def window(self, starts: npt.ArrayLike, shapes: npt.ArrayLike) -> Samples:
        """Return views of windows: `array[start : start + shape]` along every dimension.

        Args:
            starts: begin of each window: (N, ndim), or an array that broadcasts to it.
            shapes: extents of each window: (N, ndim), or an array that broadcasts to it.

        Raises:
            PipelineError: a window exceeds its sample; the message names the first such sample.
        """
        first = np.broadcast_to(np.asarray(starts, np.int64), self.shapes.shape)
        extent = np.broadcast_to(np.asarray(shapes, np.int64), self.shapes.shape)
        outside = ((first < 0) | (extent < 0) | (first + extent > self.shapes)).any(axis=1)
        if outside.any():
            index = int(np.argmax(outside))
            raise PipelineError(
                f"sample {index}: the window from {first[index].tolist()} of shape {extent[index].tolist()} "
                f"exceeds the sample of shape {self.shapes[index].tolist()}"
            )
        return Samples(self.pointers + (first * self.strides).sum(axis=1), extent, self.strides, self.dtype)

    @cached_property
    def placement(self) -> tuple[int, int, Hashable] | None:
        """The address of the first byte, the number of bytes up to the end of the last, and what else describes them.

        None for a batch without samples, or with negative strides.
        """
        if not len(self) or (self.strides < 0).any():
            return None
        address = int(self.pointers.min())
        ends = self.pointers + ((self.shapes - 1) * self.strides).sum(axis=1) + self.dtype.itemsize
        columns = (self.pointers - address, self.shapes, self.strides)
        return address, int(ends.max()) - address, (self.dtype, *(column.tobytes() for column in columns))

    def is_contiguous(self) -> bool:
        """Return whether every sample is C-contiguous."""
        return self._contiguous

    @cached_property
    def _contiguous(self) -> bool:
        same = self.strides == contiguous_strides(self.shapes, self.dtype.itemsize)
        if same.all():
            return True
        fits = (same | (self.shapes <= 1)).all(axis=1)
        return bool((fits | (self.shapes == 0).any(axis=1)).all())


def _repeated(row: tuple[int, ...], count: int, length: int) -> Int64s:
    rows = np.empty((count, length), np.int64)  # twice as fast as np.broadcast_to
    rows[:] = row
    return rows


def _pointer(array: Any) -> int:
    data = array.data
    return int(data.ptr) if hasattr(data, "ptr") else int(array.ctypes.data)
