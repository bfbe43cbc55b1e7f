"""Tensors and batches in host memory."""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._arrays import Array
from dali_proxy.pipeline._imaging.native import compiled
from dali_proxy.pipeline._kernels.samples import Samples
from dali_proxy.pipeline.errors import InputError, InputTypeError, RaggedError
from dali_proxy.pipeline.tensors.base import (
    TensorBase,
    TensorListBase,
    check_count,
    checked_arrays,
    dlpack_arrays,
    position_of,
    sample_arrays,
)
from dali_proxy.pipeline.tensors.dlpack import as_host_array, opened
from dali_proxy.pipeline.tensors.layout import check_layout, common_layout
from dali_proxy.pipeline.types import DALIDataType, to_dali_type

#: Size in bytes up to which a copy of a batch costs less than a call of NumPy for each sample.
_SMALL = 1 << 20

_SHAPE = operator.attrgetter("shape")
_KIND = operator.attrgetter("dtype", "ndim")
_NBYTES = operator.attrgetter("nbytes")
_PLAIN = {np.ndarray}
_DTYPES: dict[np.dtype[Any], DALIDataType] = {}  # those that were needed so far

__all__ = ["Array", "TensorCPU", "TensorListCPU"]


class TensorCPU(TensorBase):
    """One sample in host memory.

    Args:
        data: any data that NumPy converts to an array, without a copy if possible.
        layout: names of the dimensions, such as "HWC".
        is_pinned: accepted for compatibility.
        source_info: origin of the sample in the reader's data set.

    Example:
        >>> TensorCPU(np.zeros((2, 3), np.uint8), "HW").shape()
        [2, 3]
    """

    _array: Array

    def __init__(self, data: Any, layout: str | None = None, is_pinned: bool = False, *, source_info: str = "") -> None:
        self._array = as_host_array(data)
        self._source_info = source_info
        self._dtype = to_dali_type(self._array.dtype)
        self._layout = check_layout(layout, self._array.ndim, "TensorCPU")

    def as_array(self) -> Array:
        """Return the data as a NumPy array, without a copy."""
        return self._array

    def as_cpu(self) -> TensorCPU:
        """Return itself: the data is on the CPU already."""
        return self

    def as_gpu(self, device_id: int = 0) -> Any:
        """Return a copy of the sample on a GPU, a `TensorGPU`."""
        return self._on_gpu.from_host(self._array, self._layout, device_id, source_info=self._source_info)

    _as_gpu = as_gpu  # DALI's name
    _on_gpu: ClassVar[Any]  # its class on the GPU, which that class's module sets

    def copy_to_external(self, ptr: Any, cuda_stream: Any = None, non_blocking: bool = False) -> None:
        """Copy the data in C order to memory at an address.

        Args:
            ptr: address of `nbytes` bytes of host memory, as an int or a `ctypes.c_void_p`.
            cuda_stream: accepted for compatibility.
            non_blocking: accepted for compatibility.
        """
        _copy_to(ptr, [self._array])

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return int(self._array.ctypes.data)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self._array.__array_interface__

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        if copy:
            return np.array(self._array, dtype=dtype)
        return np.asarray(self._array, dtype=dtype)

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self._array.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


class TensorListCPU(TensorListBase):
    """A batch of samples with one dtype and number of dimensions; their shapes may differ.

    A batch over one array, whose first dimension is the batch dimension, is dense: its samples are views of the array.
    A batch from `from_table` creates its arrays on the first access to `samples`.

    Args:
        data: a NumPy array whose first dimension is the batch dimension, or a sequence of samples.
        layout: names of the dimensions of a sample, without the batch dimension.
        is_pinned: whether the memory is registered with CUDA, so that a GPU can copy from it directly.
        contiguous: whether `data_ptr` and `as_reshaped_tensor` may copy separate samples to contiguous memory.

    Example:
        >>> batch = TensorListCPU([np.zeros((2, 3)), np.ones((4, 3))], layout="HW")
        >>> batch.shape()
        [(2, 3), (4, 3)]
    """

    __slots__ = ("_blocks", "_homes", "_rows", "owner", "pinned", "sources")

    _dense: Array | None
    _samples: Sequence[Array] | None

    def __init__(
        self, data: Any, layout: str | None = None, is_pinned: bool = False, *, contiguous: bool = True
    ) -> None:
        source: Any = data
        if isinstance(data, TensorListCPU):
            source = data.samples if data.dense is None else data.dense
            layout = layout or data.layout()
        #: Owner of a dense batch's memory (a slot, for example), if NumPy doesn't own it.
        self.owner: Any = None
        #: Origins of the samples in the reader's data set; empty if they don't come from a reader.
        self.sources: Sequence[str] = ()
        #: Whether its memory is registered with CUDA, so that a GPU can copy from it directly.
        self.pinned = is_pinned
        self._dense = self._samples = self._table = None
        self._blocks: Sequence[Array] = ()
        self._homes: Array | None = None
        #: Rows and counts of a batch from `from_rows`.
        self._rows: tuple[Array, Array] | None = None
        self._contiguous, self._packed = contiguous, None
        if type(source) is not np.ndarray:
            source = opened(source)
            if hasattr(source, "__dlpack__") and not hasattr(source, "__iter__"):
                source = as_host_array(source)
        if isinstance(source, np.ndarray):
            if source.ndim == 0:
                raise InputError("a batch needs a batch dimension in front; the array is a scalar")
            self._dense = source
            self._ndim, self._dtype = source.ndim - 1, to_dali_type(source.dtype)
        else:
            if not hasattr(source, "__iter__"):
                raise InputTypeError(
                    f"a batch must be made from an array or a list of samples, not from {type(source).__name__}"
                )
            samples = list(source)
            if set(map(type, samples)) == _PLAIN:  # without calls for each sample
                self._samples, self._dtype, self._ndim = checked_arrays(samples)
            else:
                layout = layout or common_layout(samples)
                self._samples, self._dtype, self._ndim = sample_arrays(samples, as_host_array, "TensorCPU")
        self._layout = check_layout(layout, self._ndim, "TensorListCPU")

    @classmethod
    def from_table(
        cls, table: Samples, blocks: Sequence[Array], homes: Array | None = None, layout: str = ""
    ) -> TensorListCPU:
        """Return a batch over samples in a few blocks of memory, without any work per sample.

        Args:
            table: addresses and shapes of the samples, each C-contiguous and within its block. This isn't checked.
            blocks: 1-D uint8 arrays, which the batch keeps alive.
            homes: (N,) integers: index of each sample's block; None if there is only one block.
            layout: names of the dimensions of a sample.

        Example:
            >>> block = np.arange(6, dtype=np.uint8)
            >>> table, _ = Samples.packed(block.ctypes.data, np.array([[2], [4]]), np.uint8, alignment=1)
            >>> [sample.tolist() for sample in TensorListCPU.from_table(table, [block]).samples]
            [[0, 1], [2, 3, 4, 5]]
        """
        ndim = table.shapes.shape[1]
        if layout and len(layout) != ndim:
            check_layout(layout, ndim, "TensorListCPU")  # raises
        result = cls._bare(table.dtype, ndim, layout)
        result._table, result._blocks, result._homes = table, blocks, homes
        return result

    @classmethod
    def from_dense(cls, array: Array, layout: str = "") -> TensorListCPU:
        """Return a dense batch over an array, without the checks and conversions of the constructor.

        Args:
            array: the array, with a dimension for each letter of the layout behind the first one.
            layout: names of the dimensions of a sample, or an empty string.
        """
        result = cls._bare(array.dtype, array.ndim - 1, layout)
        result._dense = array
        return result

    @classmethod
    def concatenate(cls, batches: Sequence[TensorListCPU]) -> TensorListCPU:
        """Return the samples of several batches of one dtype and layout, one batch after another.

        Small numbers are copied; other samples stay where they are, and the batches must keep them alive.

        Raises:
            InputTypeError: the batches differ in dtype, number of dimensions or layout.
        """
        layout = batches[0].layout()
        if any(batch.layout() != layout for batch in batches):
            raise InputTypeError(f"the batches have the layouts {', '.join(repr(each.layout()) for each in batches)}")
        is_pinned = all(batch.pinned for batch in batches)  # a copy wouldn't be
        copied = None if is_pinned else cls._copied(batches, layout)
        if copied is not None:
            return copied
        for batch in batches:
            batch._place_rows()
        if all(batch._blocks for batch in batches) and len({(batch._dtype, batch._ndim) for batch in batches}) == 1:
            starts = np.cumsum([0, *[len(batch._blocks) for batch in batches]]).tolist()
            homes = [
                np.full(len(batch), start) if batch._homes is None else batch._homes + start
                for batch, start in zip(batches, starts, strict=False)
            ]
            blocks = [block for batch in batches for block in batch._blocks]
            tables = [batch.table() for batch in batches]
            result = cls.from_table(Samples.concatenate(tables), blocks, np.concatenate(homes), layout)
            result.pinned = is_pinned
            return result
        result = cls([sample for batch in batches for sample in batch.samples], layout)
        result.pinned = is_pinned
        return result

    @classmethod
    def _copied(cls, batches: Sequence[TensorListCPU], layout: str) -> TensorListCPU | None:
        """Return small batches as one, in new memory; None if they aren't small, or need work for each sample."""
        arrays = [batch.small_array() for batch in batches]
        found = [array for array in arrays if array is not None and array.nbytes <= _SMALL]
        if len(found) == len(arrays) and len({(array.dtype, array.shape[1:]) for array in found}) == 1:
            return cls.from_dense(np.concatenate(found), layout)
        if not all(batch._rows or (batch._dense is not None and batch._ndim) for batch in batches):
            return None
        known = [each for batch in batches if (each := batch.rows()) is not None]
        rows, counts = [each for each, _ in known], [each for _, each in known]
        alike = len(known) == len(batches) and len({(array.dtype, array.shape[1:]) for array in rows}) == 1
        small = alike and sum([array.nbytes for array in rows]) <= _SMALL
        return cls.from_rows(np.concatenate(rows), np.concatenate(counts), layout) if small else None

    @classmethod
    def from_arrays(cls, arrays: list[Array], layout: str = "") -> TensorListCPU | None:
        """Return a batch over NumPy arrays; None if they differ in dtype or number of dimensions.

        Args:
            arrays: at least one array, of a dtype that batches support.
            layout: names of the dimensions of a sample.
        """
        if len(set(map(_KIND, arrays))) > 1:
            return None
        first = arrays[0]
        result = cls._bare(first.dtype, first.ndim, check_layout(layout, first.ndim, "TensorListCPU"))
        result._samples = arrays
        return result

    @classmethod
    def _bare(cls, dtype: np.dtype[Any], ndim: int, layout: str) -> TensorListCPU:
        """Return a batch without data."""
        result = cls.__new__(cls)
        result.owner, result.sources, result.pinned = None, (), False
        result._dense = result._samples = result._table = result._packed = result._homes = result._rows = None
        result._blocks, result._contiguous = (), True
        known = _DTYPES.get(dtype)
        if known is None:
            known = _DTYPES[dtype] = to_dali_type(dtype)
        result._dtype, result._ndim, result._layout = known, ndim, layout
        return result

    @classmethod
    def from_rows(cls, rows: Array, counts: Array, layout: str = "") -> TensorListCPU:
        """Return a batch whose samples follow one another in an array.

        Args:
            rows: C-contiguous array.
            counts: (N,) integers: number of rows of each sample.
            layout: names of the dimensions of a sample.

        Example:
            >>> batch = TensorListCPU.from_rows(np.arange(6).reshape(3, 2), np.array([1, 2]))
            >>> [sample.tolist() for sample in batch.samples]
            [[[0, 1]], [[2, 3], [4, 5]]]
        """
        if len(counts) and (counts == counts[0]).all():
            dense = rows.reshape(len(counts), counts[0], *rows.shape[1:])
            return cls.from_dense(dense, check_layout(layout, rows.ndim, "TensorListCPU"))
        result = cls._bare(rows.dtype, rows.ndim, check_layout(layout, rows.ndim, "TensorListCPU"))
        result._rows = rows, counts
        return result

    def _place_rows(self) -> None:
        """Make the table of a batch from `from_rows`, which most operators don't need."""
        if self._rows is None or self._table is not None:
            return
        rows, counts = self._rows
        shapes = np.empty((len(counts), rows.ndim), np.int64)
        shapes[:, 0], shapes[:, 1:] = counts, rows.shape[1:]
        starts = rows.ctypes.data + (np.cumsum(counts) - counts) * rows.strides[0]
        self._blocks = [rows.reshape(-1).view(np.uint8)]
        self._table = Samples.contiguous(starts, shapes, rows.dtype)  # last: other threads look for it

    def table(self) -> Samples:
        self._place_rows()
        return super().table()

    def reinterpret(self, new_type: DALIDataType) -> None:
        self._place_rows()
        self._rows = None
        super().reinterpret(new_type)

    def interiors(self, offset: int, shape: Sequence[int], dtype: np.dtype[Any]) -> TensorListCPU:
        """Return arrays of one shape that begin at an offset, in bytes, in each sample of a batch from `from_table`."""
        self._place_rows()
        assert self._table is not None
        shapes = np.empty((len(self), len(shape)), np.int64)
        shapes[:] = shape
        table = Samples.contiguous(self._table.pointers + offset, shapes, dtype)
        return self.from_table(table, self._blocks, self._homes)

    def rows(self) -> tuple[Array, Array] | None:
        """Return the samples one after another along their first dimension, and the number of rows of each, (N,).

        None if the samples are numbers, or if their other dimensions differ.
        """
        if not self._ndim or not len(self):
            return None
        if self._dense is not None:
            count, each, *rest = self._dense.shape
            return self._dense.reshape(count * each, *rest), np.full(count, each)
        if self._rows is not None:
            return self._rows
        table = self._table
        if table is not None and len(self._blocks) == 1 and not (table.shapes[:, 1:] != table.shapes[0, 1:]).any():
            ends, block = table.pointers + table.sizes, self._blocks[0]
            if (table.pointers[1:] == ends[:-1]).all():
                shape = (int(table.shapes[:, 0].sum()), *table.shapes[0, 1:].tolist())
                offset = int(table.pointers[0]) - block.ctypes.data
                return np.ndarray(shape, table.dtype, buffer=block, offset=offset), table.shapes[:, 0]
        samples = self.samples
        shapes = set(map(_SHAPE, samples))
        rests = {shape[1:] for shape in shapes}
        if len(rests) > 1:
            return None
        joined = _joined(samples)
        if len(shapes) == 1:
            counts = np.full(len(samples), len(samples[0]))
        else:
            counts = np.fromiter(map(len, samples), np.int64, len(samples))
        rows = np.concatenate(samples) if joined is None else joined.reshape(int(counts.sum()), *rests.pop())
        return rows, counts

    @property
    def homes(self) -> Array | None:
        """Index of each sample's block of memory, (N,) integers; None if the batch has no blocks."""
        self._place_rows()
        if self._homes is None and len(self._blocks) == 1:
            self._homes = np.zeros(len(self), np.int64)
        return self._homes

    @property
    def samples(self) -> Sequence[Array]:
        """The samples as NumPy arrays, without copies: a list, or the dense array itself."""
        if self._samples is None:  # iterating and indexing an array gives its samples
            self._samples = self._make_samples() if self._dense is None else self._dense  # type: ignore[assignment]
        return self._samples  # type: ignore[return-value]

    @property
    def dense(self) -> Array | None:
        """The array of a dense batch, whose first dimension is the batch dimension; otherwise None."""
        return self._dense

    @property
    def read_only(self) -> bool:
        """Whether other batches may use its memory, so that nothing may be written to it."""
        self._place_rows()
        arrays = self._blocks or (self.samples if self._dense is None else [self._dense])
        return not all(array.flags.writeable for array in arrays)

    def small_array(self) -> Array | None:
        """Return the batch as one array: that of a dense batch, or a copy of small samples with one shape; else None.

        One call of NumPy on that array costs less than a call for each sample.
        """
        if self._dense is not None:
            return self._dense
        samples = self._samples
        if samples is None:
            if not len(self) or not self.is_dense_tensor():
                return None
            samples = self.samples
        count = len(samples)
        if not count or samples[0].nbytes * count > _SMALL:
            return None
        stacked = compiled.stack_samples(samples) if compiled is not None and self._ndim else None
        if stacked is not None:
            array: Array = np.ndarray((count, *samples[0].shape), samples[0].dtype, stacked)
            return array
        if self._ndim and len(set(map(len if self._ndim == 1 else _SHAPE, samples))) > 1:
            return None
        joined = _joined(samples)
        return np.array(samples) if joined is None else joined.reshape(count, *samples[0].shape)

    @property
    def nbytes(self) -> int:
        """Size of the data in bytes."""
        if self._dense is not None:
            return int(self._dense.nbytes)
        if self._rows is not None:
            return int(self._rows[0].nbytes)
        if self._table is not None:
            return self._table.nbytes
        return sum(map(_NBYTES, self.samples))

    def shape(self) -> list[tuple[int, ...]]:
        """Return the shapes of the samples."""
        if self._dense is not None:
            return [self._dense.shape[1:]] * len(self._dense)
        if self._rows is not None:
            rows, counts = self._rows
            return [(count, *rows.shape[1:]) for count in counts.tolist()]
        if self._samples is None and self._table is not None:
            return [tuple(shape) for shape in self._table.shapes.tolist()]
        return [sample.shape for sample in self.samples]

    def is_dense_tensor(self) -> bool:
        """Return whether all samples have the same shape, so that the batch can be one tensor."""
        if self._rows is not None:
            return len(self._rows[1]) < 2  # `from_rows` makes dense batches of samples of one shape
        if self._table is not None:
            shapes = self._table.shapes
            return len(shapes) < 2 or bool((shapes == shapes[0]).all())
        if self._dense is not None or not len(self):
            return True
        first = self.samples[0].shape
        return all(sample.shape == first for sample in self.samples)

    def as_array(self) -> Array:
        """Return the batch as one array, without a copy if it is dense.

        Raises:
            RaggedError: the shapes of the samples differ.
        """
        if self._dense is not None:
            return self._dense
        if not self.is_dense_tensor():
            raise RaggedError(f"the batch is ragged, so it isn't a single array: shapes {self.shape()[:8]}")
        return np.stack(self.samples) if len(self) else np.empty(0, np.float32)

    def as_tensor(self) -> TensorCPU:
        """Return the batch as one `TensorCPU`; its first dimension is the batch dimension ("N" in the layout)."""
        return TensorCPU(self.as_array(), "N" + self._layout if self._layout else "")

    def as_cpu(self) -> TensorListCPU:
        """Return itself: the data is on the CPU already."""
        return self

    def as_gpu(self, device_id: int = 0) -> Any:
        """Return a copy of the batch on a GPU, a `TensorListGPU`."""
        return self._on_gpu.from_host(self, device_id)

    _as_gpu = as_gpu  # DALI's name
    _on_gpu: ClassVar[Any]  # its class on the GPU, which that class's module sets

    def copy_to_external(self, ptr: Any, cuda_stream: Any = None, non_blocking: bool = False) -> None:
        """Copy the samples in C order, one after another, to memory at an address.

        Args:
            ptr: address of `nbytes` bytes of host memory, as an int or a `ctypes.c_void_p`.
            cuda_stream: accepted for compatibility.
            non_blocking: accepted for compatibility.
        """
        _copy_to(ptr, self.samples)

    def as_reshaped_tensor(self, shape: Sequence[int]) -> TensorCPU:
        """Return all elements of the batch as one `TensorCPU` of the given shape, over the same memory.

        Raises:
            RaggedError: the samples aren't contiguous.
            InputError: the shape has a different number of elements.
        """
        return TensorCPU(self._reshaped(np, shape))

    @classmethod
    def broadcast(cls, sample: TensorCPU, num_samples: int) -> TensorListCPU:
        """Return a batch that repeats one sample, without copies.

        Args:
            sample: the sample.
            num_samples: number of samples of the batch.

        Raises:
            InputError: the number is negative.
        """
        check_count(num_samples)
        batch = cls([sample] * num_samples, contiguous=False)
        batch._dtype, batch._ndim, batch._layout = sample.dtype, int(sample.ndim), sample.layout()
        return batch

    @classmethod
    def from_dlpack_list(
        cls, list_of_objects: Sequence[Any], layout: str | None = None, contiguous: bool = False
    ) -> TensorListCPU:
        """Return a batch of samples that support DLPack, without copies.

        Args:
            list_of_objects: the samples: arrays or tensors on the CPU, or DLPack capsules.
            layout: names of the dimensions of a sample.
            contiguous: whether to copy the samples to contiguous memory.

        Raises:
            InputTypeError: a sample doesn't support DLPack, or the samples differ in dtype or number of dimensions.
        """
        batch = cls(dlpack_arrays(list_of_objects), layout, contiguous=contiguous)
        if contiguous and len(batch):
            batch._flat(np)
        return batch

    def data_ptr(self) -> int:
        """Return the address of the first element. The other elements follow it if the batch is contiguous."""
        if self._dense is None and not self._contiguous:
            return int(self.table().pointers[0])
        array: Any = self._dense if self._dense is not None else self._flat(np)
        return int(array.ctypes.data)

    def at(self, index: int) -> Array:
        """Return a sample as a NumPy array."""
        return np.asarray(self.samples[position_of(index, self)])

    def __getitem__(self, index: int) -> TensorCPU:
        index = position_of(index, self)
        sample = self.samples[index] if self._dense is None else self._dense[index, ...]  # a view of a number, too
        return TensorCPU(sample, self._layout, source_info=self.sources[index] if self.sources else "")

    def __len__(self) -> int:
        if self._samples is not None:
            return len(self._samples)
        if self._rows is not None:
            return len(self._rows[1])
        return len(self.samples if self._table is None else self._table.pointers)

    def __iter__(self) -> Iterator[TensorCPU]:
        return (self[index] for index in range(len(self)))

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        if copy:
            return np.array(self.as_array(), dtype=dtype)
        return np.asarray(self.as_array(), dtype=dtype)

    def _flat(self, library: Any) -> Array:
        _ = self.samples  # creates the arrays of a batch from a table
        flat: Array = super()._flat(library)
        self._rows = None
        if self._packed is not None:  # the samples aren't in the blocks any more
            self._blocks, self._homes = (), None
        return flat

    def _make_samples(self) -> list[Array]:
        table, blocks = self.table(), self._blocks
        homes = np.asarray(self.homes)
        offsets = table.pointers - np.array([block.ctypes.data for block in blocks], np.int64)[homes]
        ndarray, dtype = np.ndarray, table.dtype
        return [
            ndarray(shape, dtype, buffer=blocks[home], offset=offset)
            for shape, home, offset in zip(table.shapes.tolist(), homes.tolist(), offsets.tolist(), strict=True)
        ]


def _joined(samples: Sequence[Array]) -> Array | None:
    """Return a copy of all elements, in a fifth of the time of NumPy's functions; None if that can't be done."""
    try:
        return np.frombuffer(bytearray().join(samples), samples[0].dtype)  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError):  # they aren't contiguous, or their dtype has no buffer format
        return None


def _copy_to(ptr: Any, arrays: Iterable[Array]) -> None:
    address = int(getattr(ptr, "value", ptr) or 0)
    if not address:
        raise ValueError("copy_to_external() needs the address of memory, not NULL")
    for array in arrays:
        contiguous = np.ascontiguousarray(array)
        ctypes.memmove(address, contiguous.ctypes.data, contiguous.nbytes)
        address += contiguous.nbytes
