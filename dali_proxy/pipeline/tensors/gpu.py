"""Tensors and batches in GPU memory, over CuPy arrays or any object with `__cuda_array_interface__`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._cuda.streams import existing_stream
from dali_proxy.pipeline._kernels.samples import Samples
from dali_proxy.pipeline.errors import InputError, RaggedError
from dali_proxy.pipeline.tensors.base import (
    TensorBase,
    TensorListBase,
    check_count,
    dlpack_arrays,
    position_of,
    sample_arrays,
)
from dali_proxy.pipeline.tensors.cpu import TensorCPU, TensorListCPU
from dali_proxy.pipeline.tensors.dlpack import opened
from dali_proxy.pipeline.tensors.layout import check_layout, common_layout
from dali_proxy.pipeline.types import to_dali_type

__all__ = ["TensorGPU", "TensorListGPU", "as_device_array"]


class TensorGPU(TensorBase):
    """One sample in GPU memory.

    Args:
        data: a CuPy array, or an object with ``__cuda_array_interface__`` or DLPack, such as a torch tensor.
        layout: names of the dimensions, such as "HWC".
        device_id: accepted for compatibility; the memory belongs to one GPU.
        stream: CUDA stream that computes the data: a stream of CuPy or torch, or a handle.
        ready: CUDA event after which the data may be read; None if it may be read now.
        source_info: origin of the sample in the reader's data set.

    Raises:
        InputError: the data isn't on a GPU.
    """

    #: The CUDA stream that computes the data, or None; ``int()`` of a pipeline's stream is its handle.
    stream: Any = None

    def __init__(
        self,
        data: Any,
        layout: str | None = None,
        device_id: int = -1,
        stream: Any = None,
        *,
        ready: Any = None,
        source_info: str = "",
    ) -> None:
        self._array = data = _own_device_array(data)
        self._source_info = source_info
        self._ready = ready
        #: The owner and lenders of the `TensorListGPU` that contains it.
        self.owner: Any = None
        self.stream = None if stream is None else existing_stream(stream)
        self.lenders: tuple[Any, ...] = ()
        self._dtype = to_dali_type(data.dtype)
        self._layout = check_layout(layout, data.ndim, "TensorGPU")

    @property
    def ready(self) -> Any:
        """The CUDA event after which the data may be read; None if it may be read now."""
        return self._ready

    def device_id(self) -> int:
        """Return the number of the GPU."""
        return int(self._array.device.id)

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return int(self._array.data.ptr)

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

    def copy_to_external(
        self, ptr: Any, cuda_stream: Any = None, non_blocking: bool = False, use_copy_kernel: bool = False
    ) -> None:
        """Copy the data in C order to device memory at an address.

        Args:
            ptr: address of `nbytes` bytes of device memory, as an int or a `ctypes.c_void_p`.
            cuda_stream: the stream for the copy, as an int or an object with a `ptr` or `cuda_stream`; by default
                CuPy's current stream.
            non_blocking: whether to return before the copy completes.
            use_copy_kernel: accepted for compatibility.
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


class TensorListGPU(TensorListBase):
    """A batch of samples in GPU memory, with one dtype and number of dimensions; their shapes may differ.

    A batch from `from_table` creates its arrays on the first access to `samples`; kernels read the table.

    Args:
        data: an array whose first dimension is the batch dimension, or a sequence of samples. Both may have the types
            that `TensorGPU` accepts.
        layout: names of the dimensions of a sample, without the batch dimension.
        device_id: accepted for compatibility; the memory belongs to one GPU.
        stream: CUDA stream that computes the data: a stream of CuPy or torch, or a handle.
        contiguous: whether `data_ptr` and `as_reshaped_tensor` may copy separate samples to contiguous memory.
        ready: CUDA event after which the data may be read; None if it may be read now.
    """

    __slots__ = ("_device_id", "_memory", "lenders", "owner", "ready", "sources", "stream")

    def __init__(
        self,
        data: Any,
        layout: str | None = None,
        device_id: int = -1,
        stream: Any = None,
        *,
        contiguous: bool = True,
        ready: Any = None,
    ) -> None:
        #: Owner of the batch's memory (a slot, for example), if CuPy doesn't own it.
        self.owner: Any = None
        #: Origins of the samples in the reader's data set; empty if they don't come from a reader.
        self.sources: Sequence[str] = ()
        #: CUDA event after which the data may be read, or None.
        self.ready = ready
        #: The CUDA stream that computes the data, and to whose pool the memory returns; or None.
        self.stream: Any = None if stream is None else existing_stream(stream)
        #: Other streams to whose pools parts of its memory may return, for fed data that the pipeline only forwards.
        self.lenders: tuple[Any, ...] = ()
        self._dense = self._samples = self._table = self._memory = None
        self._device_id = 0
        self._contiguous, self._packed = contiguous, None
        if isinstance(data, TensorListGPU):
            layout = layout or data.layout()
            data = data.samples if data.dense is None else data.dense
        data = opened(data)
        if hasattr(data, "dtype") or hasattr(data, "__dlpack__"):
            self._dense = data = _own_device_array(data)
            if data.ndim == 0:
                raise InputError("a batch needs a batch dimension in front; the array is a scalar")
            self._ndim, self._dtype = int(data.ndim) - 1, to_dali_type(data.dtype)
        else:
            samples = list(data)
            layout = layout or common_layout(samples)
            self._samples, self._dtype, self._ndim = sample_arrays(samples, _own_device_array, "TensorGPU")
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
        result = cls._bare(table.dtype, table.ndim, check_layout(layout, table.ndim, "TensorListGPU"))
        result._contiguous = False
        result._table, result._memory, result._device_id = table, memory, device_id
        return result

    @classmethod
    def from_dense(cls, array: Any, layout: str = "", table: Samples | None = None) -> TensorListGPU:
        """Return a dense batch over a CuPy array, without the checks and conversions of the constructor.

        Args:
            array: the array, with a dimension for each letter of the layout behind the first one.
            layout: names of the dimensions of a sample, or an empty string.
            table: the result of `table`, if it is known.
        """
        result = cls._bare(array.dtype, array.ndim - 1, layout)
        result._dense, result._table = array, table
        return result

    @classmethod
    def _bare(cls, dtype: np.dtype[Any], ndim: int, layout: str) -> TensorListGPU:
        """Return a batch without data."""
        result = cls.__new__(cls)
        result.owner, result.sources, result.ready, result.stream, result.lenders = None, (), None, None, ()
        result._dense = result._samples = result._packed = result._table = result._memory = None
        result._device_id, result._contiguous = 0, True
        result._dtype, result._ndim, result._layout = to_dali_type(dtype), ndim, layout
        return result

    def __copy__(self) -> TensorListGPU:
        """Return a batch over the same memory, in a fifth of the time of the general way."""
        other = object.__new__(type(self))
        other.owner, other.sources, other.ready, other.stream = self.owner, self.sources, self.ready, self.stream
        other.lenders, other._dense, other._samples, other._table = (
            self.lenders,
            self._dense,
            self._samples,
            self._table,
        )
        other._packed, other._memory, other._device_id = self._packed, self._memory, self._device_id
        other._dtype, other._ndim, other._layout = self._dtype, self._ndim, self._layout
        other._contiguous = self._contiguous
        return other

    @property
    def samples(self) -> Sequence[Any]:
        """The samples as CuPy arrays, without copies."""
        if self._samples is None:
            if self._dense is not None:
                self._samples = [self._dense[index] for index in range(len(self._dense))]
            else:
                self._samples = self._make_samples()
        samples: Sequence[Any] = self._samples
        return samples

    @property
    def dense(self) -> Any:
        """The CuPy array of a dense batch, whose first dimension is the batch dimension; otherwise None."""
        return self._dense

    @property
    def nbytes(self) -> int:
        """Size of the data in bytes."""
        return int(self._dense.nbytes) if self._dense is not None else self.table().nbytes

    def shape(self) -> list[tuple[int, ...]]:
        """Return the shapes of the samples."""
        if self._dense is not None:
            return [tuple(self._dense.shape[1:])] * len(self._dense)
        if not len(self):
            return []
        return [tuple(shape) for shape in self.table().shapes.tolist()]

    def device_id(self) -> int:
        """Return the number of the GPU."""
        if self._memory is not None:
            return self._device_id
        array: Any = self._dense if self._dense is not None else self.samples[0]
        return int(array.device.id)

    def data_ptr(self) -> int:
        """Return the address of the first element. The other elements follow it if the batch is contiguous."""
        if self._dense is None and not self._contiguous:
            return int(self.table().pointers[0])
        array: Any = self._dense if self._dense is not None else self._elements()
        return int(array.data.ptr)

    def as_reshaped_tensor(self, shape: Sequence[int]) -> TensorGPU:
        """Return all elements of the batch as one `TensorGPU` of the given shape, over the same memory.

        Raises:
            RaggedError: the samples aren't contiguous.
            InputError: the shape has a different number of elements.
        """
        self._elements()
        import cupy

        return self._part(self._reshaped(cupy, shape), "")

    @classmethod
    def broadcast(cls, sample: TensorGPU, num_samples: int) -> TensorListGPU:
        """Return a batch that repeats one sample, without copies.

        Args:
            sample: the sample.
            num_samples: number of samples of the batch.

        Raises:
            InputError: the number is negative.
        """
        check_count(num_samples)
        batch = cls([sample] * num_samples, contiguous=False, ready=sample.ready)
        batch._dtype, batch._ndim, batch._layout = sample.dtype, int(sample.ndim), sample.layout()
        batch.owner, batch.stream, batch.lenders = sample.owner, sample.stream, sample.lenders
        return batch

    @classmethod
    def from_dlpack_list(
        cls, list_of_objects: Sequence[Any], layout: str | None = None, stream: Any = None, contiguous: bool = False
    ) -> TensorListGPU:
        """Return a batch of samples that support DLPack, without copies.

        Args:
            list_of_objects: the samples: arrays or tensors on a GPU, or DLPack capsules.
            layout: names of the dimensions of a sample.
            stream: CUDA stream that computes the data: a stream of CuPy or torch, or a handle.
            contiguous: whether to copy the samples to contiguous memory.

        Raises:
            InputTypeError: a sample doesn't support DLPack, or the samples differ in dtype or number of dimensions.
        """
        batch = cls(dlpack_arrays(list_of_objects), layout, stream=stream, contiguous=contiguous)
        if contiguous and len(batch):
            batch._elements()
        return batch

    def _elements(self) -> Any:
        """Return all elements as a 1-D array; copy separate samples to contiguous memory first."""
        import cupy

        _synchronize(self.ready)
        flat = self._flat(cupy)
        cupy.cuda.get_current_stream().synchronize()
        return flat

    def is_dense_tensor(self) -> bool:
        """Return whether all samples have the same shape, so that the batch can be one tensor."""
        return self._dense is not None or not len(self) or bool((self.table().shapes == self.table().shapes[0]).all())

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
            result = cls(data, batch.layout())
        result.sources = batch.sources
        return result

    def as_gpu(self) -> TensorListGPU:
        """Return itself: the data is on the GPU already."""
        return self

    def copy_to_external(
        self, ptr: Any, cuda_stream: Any = None, non_blocking: bool = False, use_copy_kernel: bool = False
    ) -> None:
        """Copy the samples in C order, one after another, to device memory; see `TensorGPU.copy_to_external`."""
        _copy_to(ptr, [self._dense] if self._dense is not None else self.samples, self.ready, cuda_stream, non_blocking)

    def as_cpu(self) -> TensorListCPU:
        """Wait until the batch is computed, and return a copy in host memory."""
        _synchronize(self.ready)
        dense = self._dense
        result = TensorListCPU(
            [sample.get() for sample in self.samples] if dense is None else dense.get(), self._layout
        )
        result.sources = self.sources
        return result

    def at(self, index: int) -> TensorGPU:
        """Return a sample."""
        return self[index]

    def __getitem__(self, index: int) -> TensorGPU:
        index = position_of(index, self)
        source = self.sources[index] if self.sources else ""
        return self._part(self.samples[index], self._layout, source)

    def part(self, samples: slice) -> TensorListGPU:
        """Return some of the samples as a batch over the same memory."""
        if self._dense is not None:
            result = TensorListGPU.from_dense(self._dense[samples], self._layout)
        elif self._memory is not None:
            result = self.from_table(self.table().take(samples), self._memory, self._device_id, self._layout)
        else:
            result = TensorListGPU(self.samples[samples], self._layout, contiguous=False)
        result.owner = self.owner
        # As the operators would return it: one array if the shapes are the same, which is made when it is needed.
        result._contiguous = result.is_dense_tensor()
        return result

    def _part(self, array: Any, layout: str, source_info: str = "") -> TensorGPU:
        tensor = TensorGPU(array, layout, ready=self.ready, source_info=source_info)
        tensor.owner, tensor.stream, tensor.lenders = self.owner, self.stream, self.lenders
        return tensor

    def __len__(self) -> int:
        if self._dense is not None:
            return int(self._dense.shape[0])
        return len(self.table() if self._samples is None else self._samples)

    def _make_samples(self) -> list[Any]:
        import cupy

        table = self.table()
        reach = (table.shapes - 1) * table.strides
        begins = np.minimum(reach, 0).sum(axis=1)  # strides may be negative: of the first byte, from the first element
        extents = np.maximum(reach, 0).sum(axis=1) - begins + table.dtype.itemsize
        empty = (table.shapes == 0).any(axis=1)
        begins[empty], extents[empty] = 0, 0
        columns = (table.pointers, begins, extents, table.shapes, table.strides)
        result = []
        for pointer, begin, extent, shape, strides in zip(*(column.tolist() for column in columns), strict=True):
            memory = cupy.cuda.UnownedMemory(pointer + begin, extent, self._memory, self._device_id)
            where = cupy.cuda.MemoryPointer(memory, -begin)
            result.append(cupy.ndarray(tuple(shape), table.dtype, where, strides=tuple(strides)))
        return result

    def __iter__(self) -> Iterator[TensorGPU]:
        return (self[index] for index in range(len(self)))


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


def _own_device_array(data: Any) -> Any:
    """Convert data on a GPU to a CuPy array, without a copy; refuse data on the CPU."""
    if isinstance(data, np.ndarray | TensorCPU):
        raise InputError(
            f"Provided object doesn't support cuda array interface protocol. It is a {type(data).__name__} on the CPU"
        )
    return as_device_array(data)


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


TensorCPU._on_gpu, TensorListCPU._on_gpu = TensorGPU, TensorListGPU
