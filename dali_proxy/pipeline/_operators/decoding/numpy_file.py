"""`decoders.numpy`, and the parser of NumPy's .npy files."""

from __future__ import annotations

import ctypes
import io
import math
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any

import numpy as np

from dali_proxy.pipeline._codecs.encoded import flat_bytes
from dali_proxy.pipeline._concurrency.interrupts import pass_on_interrupt
from dali_proxy.pipeline._declaration import Argument, Input, Kind, Role, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._imaging import convert
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import each_sample
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator, Setup
from dali_proxy.pipeline._operator_api.output_specs import describe
from dali_proxy.pipeline.errors import DecodeError
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU
from dali_proxy.pipeline.types import to_numpy_type

LONGEST_HEADER = 1 << 16
_READ_HEADER = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
#: Size of the header's length field in bytes, by version. The field follows the version.
_LENGTHS = {b"\1\0": 2, b"\2\0": 4}

NUMPY = declare_operator(
    name="decoders.numpy",
    role=Role.DECODER,
    doc="Decodes arrays in the format of .npy files. It rejects Python objects, so no code in a file runs.",
    inputs=(Input("encoded", "Contents of .npy files, 1-D uint8."),),
    arguments=(
        Argument(
            "dtype", Kind.DTYPE, "Dtype to convert the output to, as `fn.cast` does; by default that of the file."
        ),
    ),
)


def parse_header(head: bytes | Array) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Return the shape, Fortran order flag, dtype and offset of the array in a .npy file.

    Args:
        head: first bytes of the file, as bytes or 1-D uint8; `LONGEST_HEADER` bytes are enough.

    Raises:
        DecodeError: the data isn't a .npy file, or contains objects, text or complex numbers.
    """
    begin = bytes(head[:12])
    magic = np.lib.format.MAGIC_PREFIX
    if begin[: len(magic)] != magic:
        raise DecodeError(f"Got bad magic string for numpy header 0x{begin[:6].hex()}, expected 0x{magic.hex()}")
    text = 8 + _LENGTHS.get(begin[6:8], 0)  # offset of the header's text, after its length
    end = text + int.from_bytes(begin[8:text], "little")
    return _read_header(bytes(head[: min(end, LONGEST_HEADER)]))


@lru_cache(maxsize=256)
def _read_header(head: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Parse a header without the data after it. The cache helps because arrays of a data set often share a header."""
    file = io.BytesIO(head)
    try:
        version = np.lib.format.read_magic(file)
        if version not in _READ_HEADER:
            raise DecodeError(f"the version {version} of NumPy's format isn't supported; supported are 1.0 and 2.0")
        shape, fortran, dtype = _READ_HEADER[version](file)
    except DecodeError:
        raise
    except Exception as error:  # NumPy lets Python parse the header, and raises many of its errors
        pass_on_interrupt(error)
        raise DecodeError(f"not a NumPy file: {error}") from error
    if min(shape, default=0) < 0:
        raise DecodeError(f"not a NumPy file: the shape {shape} is negative")
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise DecodeError(f"an array of dtype {dtype} isn't supported: it must contain numbers")
    return shape, fortran, dtype, file.tell()


def parse_npy(content: Array, *, exact: bool = True) -> Array:
    """Return the array in a .npy file, as a view if it has the native byte order.

    Args:
        content: content of the file, 1-D uint8.
        exact: whether bytes behind the array are an error, as in DALI's decoder. DALI's reader skips them.

    Raises:
        DecodeError: the data isn't a .npy file, is truncated, or contains objects, text or complex numbers.

    Example:
        >>> file = io.BytesIO()
        >>> np.save(file, np.arange(3, dtype=np.int16))
        >>> parse_npy(np.frombuffer(file.getvalue(), np.uint8))
        array([0, 1, 2], dtype=int16)
    """
    shape, fortran, dtype, offset = parse_header(content)
    data = content[offset:]
    nbytes = math.prod(shape) * dtype.itemsize
    if data.size < nbytes or (exact and data.size > nbytes):
        raise DecodeError(
            f"Expected data numpy size {offset + nbytes} bytes does not match the actual size {content.size} bytes. "
            f"The array has shape {shape} and dtype {dtype}"
        )
    data = data[:nbytes]
    array: Array = np.frombuffer(data.tobytes() if data.ctypes.data % dtype.itemsize else data, dtype)
    array = array.reshape(shape[::-1]).T if fortran else array.reshape(shape)
    return array.astype(dtype.newbyteorder("="), copy=False)


def parse_files(files: TensorListCPU) -> TensorListCPU:
    """Return the first array in each of .npy files, as views if they have the native byte order.

    Args:
        files: contents of the files, 1-D uint8: a batch from `TensorListCPU.from_table`.

    Raises:
        OperatorError: files aren't .npy files, are truncated, or contain objects, text or complex numbers.
    """
    pointers, sizes = files.table().pointers, files.table().sizes
    with suppress(DecodeError):  # it is raised below, with the number of its sample
        head = ctypes.string_at(int(pointers[0]), min(int(sizes[0]), LONGEST_HEADER))
        shape, fortran, dtype, offset = parse_header(head)
        alike = (sizes >= offset + math.prod(shape) * dtype.itemsize).all() and dtype.isnative and not fortran
        aligned = not ((pointers + offset) % dtype.itemsize).any()
        if alike and aligned and len({ctypes.string_at(pointer, offset) for pointer in pointers.tolist()}) == 1:
            return files.interiors(offset, shape, dtype)
    return TensorListCPU(each_sample(partial(parse_npy, exact=False), files.samples))


@implements(NUMPY, "cpu")
class NumpyDecoder(SampleOperator[np.dtype[Any] | None]):
    """Returns the array in the file. The state is the requested dtype.

    As in DALI, all arrays of the data set have one number of dimensions and, without the argument, one dtype.
    """

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._first: list[tuple[int, np.dtype[Any]]] = []

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[np.dtype[Any] | None, Sequence[OutputSpec]]:
        wanted = self.node.argument("dtype")
        dtype = None if wanted is None else to_numpy_type(wanted)
        return dtype, [describe("", None, dtype)]

    def run(self, state: np.dtype[Any] | None, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        array = parse_npy(flat_bytes(inputs[0]))
        if not self._first:
            self._first.append((array.ndim, array.dtype))
        ndim, dtype = self._first[0]  # appended first, if several threads did
        if array.ndim != ndim:
            raise DecodeError(
                "All samples in the dataset must have the same number of dimensions, but got differing sample "
                f"dimensions: {ndim} and {array.ndim}"
            )
        if state is None and array.dtype != dtype:
            raise DecodeError(
                f"All samples in the dataset must have the same data type, but got differing types: {dtype} and "
                f"{array.dtype}"
            )
        return array if state is None else convert(array, state)
