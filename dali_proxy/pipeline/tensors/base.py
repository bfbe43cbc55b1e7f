"""Properties and methods that tensors and batches on the CPU and on the GPU share."""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dali_proxy.pipeline._kernels.samples import Samples
from dali_proxy.pipeline.errors import InputError, InputTypeError, RaggedError, SampleIndexError
from dali_proxy.pipeline.tensors.formatting import format_batch, format_tensor
from dali_proxy.pipeline.tensors.layout import check_layout
from dali_proxy.pipeline.types import NO_TYPE, DALIDataType, to_dali_type, to_numpy_type

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "Dimensions",
    "TensorBase",
    "TensorListBase",
    "check_count",
    "checked_arrays",
    "dlpack_arrays",
    "position_of",
    "sample_arrays",
]

_KIND = operator.attrgetter("dtype", "ndim")


class Dimensions(int):
    """A number of dimensions. DALI's `ndim` is a method, so this number can be called: it returns itself.

    Example:
        >>> Dimensions(2) == Dimensions(2)() == 2
        True
    """

    def __call__(self) -> int:
        return int(self)


class TensorBase:
    """One sample over an array of NumPy or CuPy."""

    _array: Any
    _dtype: DALIDataType
    _layout: str
    _source_info: str

    @property
    def dtype(self) -> DALIDataType:
        """Element type."""
        return self._dtype

    @property
    def ndim(self) -> Dimensions:
        """Number of dimensions; can also be called, as in DALI."""
        return Dimensions(self._array.ndim)

    @property
    def nbytes(self) -> int:
        """Size of the data in bytes."""
        return int(self._array.nbytes)

    def layout(self) -> str:
        """Return the names of the dimensions, or an empty string."""
        return self._layout

    def set_layout(self, layout: str | None) -> None:
        """Set the names of the dimensions; None or an empty string removes them.

        Raises:
            ArgumentValueError: the number of letters differs from the number of dimensions.
        """
        self._layout = check_layout(layout, self._array.ndim, type(self).__name__)

    def source_info(self) -> str:
        """Return the origin of the sample in the reader's data set, or an empty string."""
        return self._source_info

    def get_property(self, key: str) -> str | None:
        """Return a property of the sample, or None if it doesn't have it.

        Args:
            key: "layout" or "source_info".
        """
        return {"layout": self._layout, "source_info": self._source_info}.get(key) or None

    def shape(self) -> list[int]:
        """Return the lengths of the dimensions."""
        return list(self._array.shape)

    def squeeze(self, dim: int | None = None) -> bool:
        """Remove dimensions of length 1 from the shape and the layout, without a copy.

        Args:
            dim: the only dimension to remove; it stays if its length isn't 1. Negative numbers count from the end.

        Returns:
            Whether the shape changed.

        Raises:
            InputError: the tensor doesn't have the dimension.
        """
        shape = self._array.shape
        if dim is None:
            removed = [axis for axis, length in enumerate(shape) if length == 1]
        else:
            axis = operator.index(dim)
            if not -len(shape) <= axis < len(shape):
                raise InputError(f"squeeze(): axis {axis} is out of bounds for a tensor with {len(shape)} dimensions")
            removed = [axis % len(shape)] if shape[axis] == 1 else []
        self._array = self._array.reshape([length for axis, length in enumerate(shape) if axis not in removed])
        self._layout = "".join(letter for axis, letter in enumerate(self._layout) if axis not in removed)
        return bool(removed)

    def reinterpret(self, new_type: DALIDataType) -> None:
        """Reinterpret the bytes of the elements as another dtype of the same size.

        Raises:
            InputError: the size of the dtype differs.
        """
        self._array = self._array.view(_dtype_of_size(new_type, self._dtype))
        self._dtype = to_dali_type(self._array.dtype)

    def __repr__(self) -> str:
        return format_tensor(self, show_data=False)

    def _repr_html_(self) -> str:
        from dali_proxy.pipeline.tensors.notebook import as_html  # needs PIL, which other methods don't

        return as_html(repr(self), [self], self.layout())

    def __str__(self) -> str:
        return format_tensor(self)


class TensorListBase:
    """A batch over arrays of NumPy or CuPy."""

    __slots__ = ("_contiguous", "_dense", "_dtype", "_layout", "_ndim", "_packed", "_samples", "_table")

    _dense: Any
    _samples: Any
    _table: Samples | None
    _dtype: DALIDataType
    _ndim: int
    _layout: str
    _contiguous: bool
    _packed: tuple[Any, Any] | None

    @property
    def dtype(self) -> DALIDataType:
        """Element type."""
        return self._dtype

    @property
    def ndim(self) -> Dimensions:
        """Number of dimensions of a sample; can also be called, as in DALI."""
        return Dimensions(self._ndim)

    def layout(self) -> str:
        """Return the names of the dimensions, or an empty string."""
        return self._layout

    def set_layout(self, layout: str | None) -> None:
        """Set the names of the dimensions of a sample; None or an empty string removes them.

        Raises:
            ArgumentValueError: the number of letters differs from the number of dimensions.
        """
        self._layout = check_layout(layout, self._ndim, type(self).__name__)

    def with_layout(self, layout: str) -> Self:
        """Return a batch over the same memory with another layout."""
        other = copy.copy(self)
        if layout != self._layout:
            other.set_layout(layout)
        return other

    def table(self) -> Samples:
        """Return the addresses, shapes and strides of the samples, cached for the lifetime of the batch."""
        if self._table is None:
            self._table = Samples.dense(self._dense) if self._dense is not None else Samples.from_arrays(self._samples)
        return self._table

    def reinterpret(self, new_type: DALIDataType) -> None:
        """Reinterpret the bytes of the elements as another dtype of the same size.

        Raises:
            InputError: the size of the dtype differs.
        """
        kind = _dtype_of_size(new_type, self._dtype)
        if self._dense is not None:
            self._dense, self._samples = self._dense.view(kind), None
        elif self._samples is not None:
            self._samples = [sample.view(kind) for sample in self._samples]
        if self._table is not None:
            self._table = replace(self._table, dtype=kind)
        if self._packed is not None:
            self._packed = (self._packed[0], self._packed[1].view(kind))
        self._dtype = to_dali_type(kind)

    def reset(self) -> None:
        """Drop the data and the layout: the batch is empty afterwards."""
        self.__init__([])  # type: ignore[misc]

    def _flat(self, library: Any) -> Any:
        """Return all elements as a 1-D array, a view of the batch.

        A batch that was created from separate samples is copied to contiguous memory first.

        Args:
            library: the module of the arrays, NumPy or CuPy.

        Raises:
            RaggedError: the samples aren't contiguous.
        """
        if self._dense is not None and self._dense.flags.c_contiguous:
            return self._dense.reshape(-1)
        if self._packed is not None:
            return self._packed[1]
        if not self._contiguous:
            raise RaggedError("the samples of this batch aren't contiguous")
        samples = list(self._samples if self._dense is None else self._dense)
        ends = np.cumsum([sample.size for sample in samples]).tolist()
        flat = library.concatenate([sample.reshape(-1) for sample in samples])
        self._packed = (samples, flat)  # the separate samples may still be in use
        self._table = None
        if len({sample.shape for sample in samples}) == 1:
            self._dense, self._samples = flat.reshape(len(samples), *samples[0].shape), None
        else:
            views = zip([0, *ends], ends, samples, strict=False)
            self._samples = [flat[start:end].reshape(sample.shape) for start, end, sample in views]
        return flat

    def _reshaped(self, library: Any, shape: Sequence[int]) -> Any:
        flat = self._flat(library)
        if any(length < 0 for length in shape) or math.prod(shape) != flat.size:
            raise InputError(
                f"as_reshaped_tensor(): the shape {tuple(shape)} doesn't have the same volume as the batch, which has "
                f"{flat.size} elements"
            )
        return flat.reshape(tuple(shape))

    def __repr__(self) -> str:
        return format_batch(self, show_data=False)

    def _repr_html_(self) -> str:
        from dali_proxy.pipeline.tensors.notebook import as_html

        return as_html(repr(self), self, self.layout())  # type: ignore[arg-type]

    def __str__(self) -> str:
        return format_batch(self)


def sample_arrays(samples: Sequence[Any], convert: Any, target: str) -> tuple[list[Any], DALIDataType, int]:
    """Return the samples of a batch as arrays, with their dtype and number of dimensions.

    Args:
        samples: the samples; a batch without samples has the dtype `NO_TYPE`.
        convert: function that converts one to an array.
        target: class of one sample, for messages.

    Raises:
        InputTypeError: a sample can't be converted, or the samples differ in dtype or number of dimensions.
    """
    arrays = []
    for position, sample in enumerate(samples):
        try:
            arrays.append(convert(sample))
        except (TypeError, ValueError, BufferError, RuntimeError) as error:
            message = f"Object at position {position} cannot be converted to {target}: {type(sample).__name__}: {error}"
            raise InputTypeError(message) from error
    return checked_arrays(arrays)


def checked_arrays(arrays: list[Any]) -> tuple[list[Any], DALIDataType, int]:
    """Return the arrays of a batch with their dtype and number of dimensions.

    Raises:
        InputTypeError: they differ in dtype or number of dimensions.
    """
    if not arrays:
        return arrays, NO_TYPE, 0
    dtype, ndim = arrays[0].dtype, int(arrays[0].ndim)
    if len(set(map(_KIND, arrays))) == 1:
        return arrays, to_dali_type(dtype), ndim
    for position, array in enumerate(arrays):
        if array.dtype != dtype:
            raise InputTypeError(
                f"Tensors cannot have different data types. Tensor at position {position} has type '{array.dtype}' "
                f"expected to have type '{dtype}'."
            )
        if array.ndim != ndim:
            raise InputTypeError(
                f"Tensors cannot have different numbers of dimensions. Tensor at position {position} has "
                f"{array.ndim} dimensions, expected to have {ndim}."
            )
    return arrays, to_dali_type(dtype), ndim


def check_count(num_samples: int) -> None:
    """Raise an InputError if a number of samples is negative."""
    if num_samples < 0:
        raise InputError(f"a batch can't have {num_samples} samples")


def dlpack_arrays(objects: Sequence[Any]) -> list[Any]:
    """Return objects that support DLPack, for the constructor of a batch.

    Raises:
        InputTypeError: one doesn't.
    """
    listed = list(objects)
    for position, each in enumerate(listed):
        if not hasattr(each, "__dlpack__") and type(each).__name__ != "PyCapsule":
            raise InputTypeError(f"Object at position {position} does not support the DLPack protocol.")
    return listed


def _dtype_of_size(new_type: Any, old: DALIDataType) -> np.dtype[Any]:
    if not isinstance(new_type, DALIDataType):
        raise InputTypeError(f"reinterpret() needs a DALIDataType, not {type(new_type).__name__} ({new_type!r})")
    if new_type is NO_TYPE or to_numpy_type(new_type).itemsize != to_numpy_type(old).itemsize:
        raise InputError(f"Cannot reinterpret the data as having a different element size: {old!r} as {new_type!r}")
    return to_numpy_type(new_type)


def position_of(index: Any, batch: Any) -> int:
    """Return a sample's index as a number from 0; negative indices count from the end.

    Raises:
        SampleIndexError: the batch has no such sample.
        TypeError: the index isn't an integer.
    """
    position = operator.index(index)
    if not -len(batch) <= position < len(batch):
        raise SampleIndexError(
            f"{type(batch).__name__} index {position} is out of range for a batch of {len(batch)} samples"
        )
    return position % len(batch)
