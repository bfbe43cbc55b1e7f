"""Tensors and batches in GPU memory, over CuPy arrays or any object with `__cuda_array_interface__`."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

from pipeline._kernels.samples import Samples
from pipeline.errors import InputError, InputTypeError, RaggedError
from pipeline.tensors.cpu import TensorCPU, TensorListCPU, position_of, summarize
from pipeline.tensors.dlpack import opened
from pipeline.tensors.layout import check_layout, common_layout
from pipeline.types import DALIDataType, to_dali_type

__all__ = ["TensorGPU", "TensorListGPU", "as_device_array"]


class TensorGPU:
    """One sample in GPU memory.

    Args:
        data: a CuPy array, or an object with ``__cuda_array_interface__`` or DLPack, such as a torch tensor.
        layout: names of the dimensions, such as "HWC".
        ready: CUDA event after which the data may be read; None if it may be read now.
        source_info: origin of the sample in the reader's data set.
    """

    def __init__(self, data: Any, layout: str = "", ready: Any = None, *, source_info: str = "") -> None:
        self._array = data = as_device_array(data)
        self._source_info = source_info
        self._ready = ready
        #: The owner, stream and lenders of the `TensorListGPU` that contains it.
        self.owner: Any = None
        self.stream: Any = None
        self.lenders: tuple[Any, ...] = ()
        self._dtype = to_dali_type(data.dtype)
        self._layout = check_layout(layout, data.ndim, "TensorGPU")

    @property
    def dtype(self) -> DALIDataType:
        """Element type."""
        return self._dtype

    @property
    def ready(self) -> Any:
        """The CUDA event after which the data may be read; None if it may be read now."""
        return self._ready

    def layout(self) -> str:
        """Return the names of the dimensions, or an empty string."""
        return self._layout

    def source_info(self) -> str:
        """Return the origin of the sample in the reader's data set, or an empty string."""
        return self._source_info

    def shape(self) -> list[int]:
        """Return the lengths of the dimensions."""
        return list(self._array.shape)

    def device_id(self) -> int:
        """Return the number of the GPU."""
        return int(self._array.device.id)

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return int(self._array.data.ptr)

    @property
    def nbytes(self) -> int:
        """Size of the data in bytes."""
        return int(self._array.nbytes)

    def as_array(self) -> Any:
        """Return the CuPy array, without a copy. Its data may be read after `ready`."""
        return self._array

    @classmethod
    def from_host(cls, array: Any, layout: str = "", device_id: int = 0, *, source_info: str = "") -> TensorGPU:
        """Copy a NumPy array to a GPU."""
        import cupy

        with cupy.cuda.Device(device_id):
            return cls(cupy.asarray(array), layout, source_info=source_info)

    def as_gpu(self) -> TensorGPU:
        """Return itself: the data is on the GPU already."""
        return self

    def copy_to_external(self, ptr: Any, cuda_stream: Any = None, non_blocking: bool = False) -> None:
        """Copy the data in C order to device memory at an address.

        Args:
            ptr: address of `nbytes` bytes of device memory, as an int or a `ctypes.c_void_p`.
            cuda_stream: the stream for the copy, as an int or an object with a `ptr` or `cuda_stream`; by default
                CuPy's current stream.
            non_blocking: whether to return before the copy completes.
        """
        _copy_to(ptr, [self._array], self._ready, cuda_stream, non_blocking)

    def as_cpu(self) -> TensorCPU:
        """Wait until the sample is computed, and return a copy in host memory."""
        _synchronize(self._ready)
        return TensorCPU(self._array.get(), self._layout, source_info=self._source_info)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        _synchronize(self._ready)
        interface: dict[str, Any] = self._array.__cuda_array_interface__
        return interface

    def __dlpack__(self, **kwargs: Any) -> Any:
        _synchronize(self._ready)
        return self._array.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()

    def __repr__(self) -> str:
        data = summarize(self.as_cpu().as_array())
        return f"TensorGPU(\n{data},\nshape={self.shape()}, {self._dtype!r}, layout={self._layout!r})"


class TensorListGPU:
    """A batch of samples in GPU memory, with one dtype and number of dimensions; their shapes may differ.

    A batch from `from_table` creates its arrays on the first access to `samples`; kernels read the table.

    Args:
        data: an array whose first dimension is the batch dimension, or a sequence of samples. Both may have the types
            that `TensorGPU` accepts.
        layout: names of the dimensions of a sample, without the batch dimension.
        ready: CUDA event after which the data may be read; None if it may be read now.
    """

    __slots__ = (
        *("_dense", "_device_id", "_dtype", "_layout", "_memory", "_ndim", "_samples", "_table"),
        *("lenders", "owner", "ready", "sources", "stream"),
    )

    def __init__(self, data: Any, layout: str = "", ready: Any = None) -> None:
        #: Owner of the batch's memory (a slot, for example), if CuPy doesn't own it.
        self.owner: Any = None
        #: Origins of the samples in the reader's data set; empty if they don't come from a reader.
        self.sources: Sequence[str] = ()
        #: CUDA event after which the data may be read, or None.
        self.ready = ready
        #: The CUDA stream that computes the data, and to whose pool the memory returns; or None.
        self.stream: Any = None
        #: Other streams to whose pools parts of its memory may return, for fed data that the pipeline only forwards.
        self.lenders: tuple[Any, ...] = ()
        self._dense: Any = None
        self._samples: Sequence[Any] | None = None
        self._table: Samples | None = None
        self._memory: Any = None
        self._device_id = 0
        if isinstance(data, TensorListGPU):
            layout = layout or data.layout()
            data = data.samples if data.dense is None else data.dense
        data = opened(data)
        if hasattr(data, "dtype") or hasattr(data, "__dlpack__"):
            self._dense = data = as_device_array(data)
            if data.ndim == 0:
                raise InputError("a batch needs a batch dimension in front; the array is a scalar")
            self._ndim = int(data.ndim) - 1
            dtype = data.dtype
        else:
            given = list(data)
            layout = layout or common_layout(given)
            self._samples = [as_device_array(sample) for sample in given]
            if not self._samples:
                raise InputError("a batch needs at least one sample")
            dtype, self._ndim = self._samples[0].dtype, int(self._samples[0].ndim)
            if any(sample.dtype != dtype or sample.ndim != self._ndim for sample in self._samples):
                raise InputTypeError("the samples of a batch must have one dtype and number of dimensions")
        self._dtype = to_dali_type(dtype)
        self._layout = check_layout(layout, self._ndim, "TensorListGPU")

    @classmethod
    def from_table(cls, table: Samples, memory: Any, device_id: int, layout: str = "") -> TensorListGPU:
        """Return a batch over samples in device memory, without any work per sample.

        Args:
            table: addresses, shapes and strides of the samples.
            memory: object that keeps the memory alive. The batch and its arrays hold a reference to it.
            device_id: number of the GPU.
            layout: names of the dimensions of a sample.
        """
        made = cls.__new__(cls)
        made.owner, made.sources, made.ready, made.stream, made.lenders = None, (), None, None, ()
        made._dense = made._samples = None
        made._table, made._memory, made._device_id = table, memory, device_id
        made._dtype, made._ndim = to_dali_type(table.dtype), table.ndim
        made._layout = check_layout(layout, made._ndim, "TensorListGPU")
        return made

    def table(self) -> Samples:
        """Return the addresses, shapes and strides of the samples, cached for the lifetime of the batch."""
        if self._table is None:
            self._table = Samples.dense(self._dense) if self._dense is not None else Samples.from_arrays(self.samples)
        return self._table

    @property
    def dtype(self) -> DALIDataType:
        """Element type."""
        return self._dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions of a sample."""
        return self._ndim

    @property
    def samples(self) -> Sequence[Any]:
        """The samples as CuPy arrays, without copies."""
        if self._samples is None:
            if self._dense is not None:
                self._samples = [self._dense[index] for index in range(len(self._dense))]
            else:
                self._samples = self._make_samples()
        return self._samples

    @property
    def dense(self) -> Any:
        """The CuPy array of a dense batch, whose first dimension is the batch dimension; otherwise None."""
        return self._dense

    @property
    def nbytes(self) -> int:
        """Size of the data in bytes."""
        return int(self._dense.nbytes) if self._dense is not None else self.table().nbytes

    def layout(self) -> str:
        """Return the names of the dimensions, or an empty string."""
        return self._layout

    def with_layout(self, layout: str) -> TensorListGPU:
        """Return a batch over the same memory with another layout."""
        other = copy.copy(self)
        other._layout = check_layout(layout, self._ndim, "TensorListGPU")
        return other

    def shape(self) -> list[tuple[int, ...]]:
        """Return the shapes of the samples."""
        if self._dense is not None:
            return [tuple(self._dense.shape[1:])] * len(self._dense)
        return [tuple(shape) for shape in self.table().shapes.tolist()]

    def device_id(self) -> int:
        """Return the number of the GPU."""
        if self._memory is not None:
            return self._device_id
        array: Any = self._dense if self._dense is not None else self.samples[0]
        return int(array.device.id)

    def data_ptr(self) -> int:
        """Return the address of the first element of a dense batch.

        Raises:
            RaggedError: the batch isn't dense.
        """
        if self._dense is None:
            raise RaggedError("the samples of this batch aren't contiguous: use batch[index].data_ptr()")
        return int(self._dense.data.ptr)

    def is_dense_tensor(self) -> bool:
        """Return whether all samples have the same shape, so that the batch can be one tensor."""
        return self._dense is not None or bool((self.table().shapes == self.table().shapes[0]).all())

    def as_array(self) -> Any:
        """Return the batch as one CuPy array, without a copy if it is dense.

        Raises:
            RaggedError: the shapes of the samples differ.
        """
        if self._dense is not None:
            return self._dense
        if not self.is_dense_tensor():
            raise RaggedError(f"the batch is ragged, so it isn't a single array: shapes {self.shape()[:8]}")
        import cupy

        _synchronize(self.ready)
        return cupy.stack(list(self.samples))

    def as_tensor(self) -> TensorGPU:
        """Return the batch as one `TensorGPU`; its first dimension is the batch dimension ("N" in the layout)."""
        return self._part(self.as_array(), "N" + self._layout if self._layout else "")

    @classmethod
    def from_host(cls, batch: TensorListCPU, device_id: int = 0) -> TensorListGPU:
        """Copy a batch to a GPU."""
        import cupy

        with cupy.cuda.Device(device_id):
            dense = batch.dense
            data = cupy.asarray(dense) if dense is not None else [cupy.asarray(sample) for sample in batch.samples]
            made = cls(data, batch.layout())
        made.sources = batch.sources
        return made

    def as_gpu(self) -> TensorListGPU:
        """Return itself: the data is on the GPU already."""
        return self

    def copy_to_external(self, ptr: Any, cuda_stream: Any = None, non_blocking: bool = False) -> None:
        """Copy the samples in C order, one after another, to device memory; see `TensorGPU.copy_to_external`."""
        _copy_to(ptr, [self._dense] if self._dense is not None else self.samples, self.ready, cuda_stream, non_blocking)

    def as_cpu(self) -> TensorListCPU:
        """Wait until the batch is computed, and return a copy in host memory."""
        _synchronize(self.ready)
        dense = self._dense
        made = TensorListCPU([sample.get() for sample in self.samples] if dense is None else dense.get(), self._layout)
        made.sources = self.sources
        return made

    def at(self, index: int) -> TensorGPU:
        """Return a sample."""
        return self[index]

    def __getitem__(self, index: int) -> TensorGPU:
        index = position_of(index, self)
        source = self.sources[index] if self.sources else ""
        return self._part(self.samples[index], self._layout, source)

    def _part(self, array: Any, layout: str, source_info: str = "") -> TensorGPU:
        tensor = TensorGPU(array, layout, self.ready, source_info=source_info)
        tensor.owner, tensor.stream, tensor.lenders = self.owner, self.stream, self.lenders
        return tensor

    def __len__(self) -> int:
        return int(self._dense.shape[0]) if self._dense is not None else len(self.table())

    def _make_samples(self) -> list[Any]:
        import cupy

        table = self.table()
        extents = ((table.shapes - 1) * table.strides).sum(axis=1) + table.dtype.itemsize
        extents[(table.shapes == 0).any(axis=1)] = 0
        columns = (table.pointers, extents, table.shapes, table.strides)
        made = []
        for pointer, extent, shape, strides in zip(*(column.tolist() for column in columns), strict=True):
            memory = cupy.cuda.UnownedMemory(pointer, extent, self._memory, self._device_id)
            where = cupy.cuda.MemoryPointer(memory, 0)
            made.append(cupy.ndarray(tuple(shape), table.dtype, where, strides=tuple(strides)))
        return made

    def __iter__(self) -> Iterator[TensorGPU]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        data = "\n".join(summarize(self[index].as_cpu().as_array()) for index in range(min(3, len(self))))
        shapes = self.shape()
        text = f"{shapes[:4]}{', ...' if len(shapes) > 4 else ''}"
        return (
            f"TensorListGPU(\n{data},\n{len(self)} samples of {self._dtype!r}, layout={self._layout!r}, shapes={text})"
        )


def as_device_array(data: Any) -> Any:
    """Convert data on a GPU (CuPy arrays, torch tensors, `TensorGPU`, DLPack) to a CuPy array, without a copy."""
    if isinstance(data, TensorGPU):
        return data.as_array()
    if type(data).__module__.partition(".")[0] == "cupy":
        return data
    import cupy

    data = opened(data)
    if hasattr(data, "detach") and hasattr(data, "device"):  # a torch tensor; with requires_grad, it has no interface
        data = data.detach()
    return cupy.asarray(data) if hasattr(data, "__cuda_array_interface__") else cupy.from_dlpack(data)


def _synchronize(event: Any) -> None:
    if event is not None:
        event.synchronize()


def _copy_to(ptr: Any, arrays: Sequence[Any], ready: Any, cuda_stream: Any, non_blocking: bool) -> None:
    import cupy

    address = int(getattr(ptr, "value", ptr) or 0)
    if not address:
        raise ValueError("copy_to_external() needs the address of memory, not NULL")
    runtime = cupy.cuda.runtime
    handle = getattr(cuda_stream, "cuda_stream", getattr(cuda_stream, "ptr", cuda_stream))
    stream = cupy.cuda.get_current_stream().ptr if handle is None else int(handle)
    if ready is not None:
        runtime.streamWaitEvent(stream, ready.ptr, 0)
    for array in arrays:
        if not array.flags.c_contiguous:
            _synchronize(ready)
            array = cupy.ascontiguousarray(array)
            cupy.cuda.get_current_stream().synchronize()
        runtime.memcpyAsync(address, array.data.ptr, array.nbytes, runtime.memcpyDeviceToDevice, stream)
        address += array.nbytes
    if not non_blocking:
        runtime.streamSynchronize(stream)
