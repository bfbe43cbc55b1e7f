"""Reads regions of .npy files, and little more than the bytes of each region."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._operators.decoding.numpy_file import LONGEST_HEADER, parse_header
from dali_proxy.pipeline._remote.data_file import DataFile
from dali_proxy.pipeline._size_limit import check_size
from dali_proxy.pipeline.errors import DecodeError, PipelineError
from dali_proxy.pipeline.tensors.cpu import Array

#: Largest gap between rows, in bytes, that is read along with them: one call is cheaper than two.
_GAP = 1 << 14
#: Bytes of such rows, gaps included, to read in one call.
_BLOCK = 1 << 18
_HEADER = 1 << 12  # nearly all headers fit into this


@dataclass(frozen=True)
class NpyFile:
    """A .npy file whose header was read.

    Attributes:
        path: path of the file.
        offset: position of the array's first byte.
        shape: shape of the array.
        dtype: dtype of the array, in the file's byte order.
        fortran: whether the first axis is the innermost one.
    """

    path: str
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool

    @classmethod
    def open(cls, path: str) -> NpyFile:
        """Read the header of a file.

        Raises:
            DecodeError: it isn't a .npy file, or is truncated.
            PipelineError: the file can't be read.
        """
        with _opened(path) as file:
            size = file.size
            head = file.pread(_HEADER, 0)
            if len(head) < min(size, _header_end(head)):
                head = file.pread(LONGEST_HEADER, 0)
        shape, fortran, dtype, offset = parse_header(head)
        wanted = prod(shape) * dtype.itemsize
        if size - offset < wanted:
            raise DecodeError(
                f"an array of shape {shape} and dtype {dtype} has {wanted} bytes, but the file {path!r} has "
                f"{size - offset}"
            )
        return cls(path, offset, shape, dtype, fortran)

    def read(self, start: Sequence[int], extent: Sequence[int]) -> Array:
        """Return a region, which must lie inside the array, as a new array in the machine's byte order.

        Raises:
            PipelineError: the file can't be read, or was truncated.
        """
        order = -1 if self.fortran else 1
        shape, begin, size = (tuple(values)[::order] for values in (self.shape, start, extent))
        check_size(f"the region of {self.path!r}", *size, self.dtype.itemsize)
        region = np.empty(size, self.dtype)
        if region.size:
            strides = [self.dtype.itemsize * prod(shape[axis + 1 :]) for axis in range(len(shape))]
            with _opened(self.path) as file:
                _read_window(file, self.offset, begin, strides, region)
        region = region.astype(self.dtype.newbyteorder("="), copy=False)
        return region.T if self.fortran else region


def _header_end(head: bytes) -> int:
    """Return the position of the header's end, from the length in the first bytes."""
    width = 2 if head[6:7] == b"\x01" else 4
    return 8 + width + int.from_bytes(head[8 : 8 + width], "little")


def _read_window(file: DataFile, offset: int, begin: Sequence[int], strides: Sequence[int], out: Array) -> None:
    """Read a window of an array in C order: row by row, or many rows at once where the gaps between them are small."""
    first = offset + sum(low * stride for low, stride in zip(begin, strides, strict=True))
    span = _span(out.shape, strides, out.itemsize)
    if span == out.nbytes:
        _read_bytes(file, first, out.reshape(-1).view(np.uint8))
        return
    row = _span(out.shape[1:], strides[1:], out.itemsize)
    count = max(1, _BLOCK // strides[0]) if strides[0] - row <= _GAP else 1
    for index in range(0, len(out), count):
        if count == 1:
            _read_window(file, offset + (begin[0] + index) * strides[0], begin[1:], strides[1:], out[index])
            continue
        rows = out[index : index + count]
        block = np.empty(_span(rows.shape, strides, out.itemsize), np.uint8)
        _read_bytes(file, first + index * strides[0], block)
        rows[...] = np.ndarray(rows.shape, out.dtype, block, 0, tuple(strides))


def _span(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> int:
    """Return the number of bytes from the first element to the end of the last one."""
    return sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)) + itemsize


def _read_bytes(file: DataFile, offset: int, target: npt.NDArray[np.uint8]) -> None:
    done = 0
    while done < target.size:
        count = file.pread_into(target[done:].data, offset + done)
        if not count:
            raise PipelineError(f"the file {file.path!r} was truncated while it was read")
        done += count


@contextmanager
def _opened(path: str) -> Iterator[DataFile]:
    """Open a file for the block. Errors name it."""
    if not path:
        raise PipelineError("the path of the file is empty")
    try:
        with DataFile(path) as file:
            yield file
    except PipelineError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a path with a zero byte
        raise PipelineError(f"can't read the file {path!r}: {getattr(error, 'strerror', None) or error}") from error
