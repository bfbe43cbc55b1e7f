"""`Tensor` and `Batch`: the data of dynamic mode."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dali_proxy.pipeline._dynamic.devices import Device, as_device
from dali_proxy.pipeline._dynamic.dtypes import DType
from dali_proxy.pipeline._dynamic.operations import operations
from dali_proxy.pipeline._dynamic.values import Value, copied, evaluate, evaluation_error, trace_error, tracing
from dali_proxy.pipeline._graph.expression import Expression
from dali_proxy.pipeline._operator_api.branch_batches import take_samples
from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError, RaggedError
from dali_proxy.pipeline.tensors.cpu import TensorCPU, TensorListCPU
from dali_proxy.pipeline.tensors.gpu import TensorGPU, TensorListGPU

if TYPE_CHECKING:
    from typing_extensions import Self


class Array(Expression):
    """What tensors and batches have in common: their data, which is computed when it is first read."""

    _value: Value
    _module = "dynamic"

    @classmethod
    def _advice(cls) -> str:
        served = super()._advice()
        return served if tracing.active() else f"use .torch() or .numpy(). In a served function, {served}"

    @classmethod
    def from_value(cls, value: Value) -> Self:
        """Return a tensor or batch over a value."""
        array = cls.__new__(cls)
        array._value = value
        value.holder = weakref.ref(array)
        return array

    @property
    def device(self) -> Device:
        """The device of the data, also before it is computed."""
        if self._value.device == "cpu":
            return Device.CPU
        if self._value.known and isinstance(self._value.data, TensorListGPU) and len(self._value.data):
            return Device("gpu", self._value.data.device_id())
        return Device("gpu")

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return self._value.enum or DType.from_type_id(self._value.data.dtype)

    @property
    def layout(self) -> str | None:
        """The names of the dimensions, such as "HWC"; None without names."""
        return self._value.data.layout() or None

    @property
    def ndim(self) -> int:
        """The number of dimensions, in a batch those of a sample."""
        return int(self._value.data.ndim)

    def evaluate(self) -> Self:
        """Compute the data if that wasn't done yet. Return the object itself."""
        evaluate([self._value])
        return self

    def cpu(self) -> Self:
        """Return the data on the CPU: the object itself if no copy is needed."""
        return self.to_device(Device.CPU)

    def gpu(self, index: int | None = None) -> Self:
        """Return the data on a GPU: the object itself if no copy is needed.

        Args:
            index: number of the GPU; by default, CUDA's current device.
        """
        return self.to_device(Device("gpu", index))

    def to_device(self, device: Any, force_copy: bool = False) -> Self:
        """Return the data on a device: the object itself if no copy is needed.

        Args:
            device: a `Device`, its name or a torch device.
            force_copy: whether to copy data that is on the device already.
        """
        target = as_device(device)
        assert target is not None
        kind = target.device_type
        if kind == "gpu" and self._value.device == "gpu" and target._device_id not in (None, self.device.device_id):
            other = self._value.data.as_cpu().as_gpu(target._device_id or 0)
            return type(self).from_value(Value("gpu", other))
        if kind != self._value.device:
            moved = self._call("copy_to_gpu" if kind == "gpu" else "copy_to_cpu")
            moved._value.owned = not tracing.active()
            return moved
        return self._call("copy") if force_copy else self

    def _lend(self) -> TensorList:
        """Return the data for a view or for other libraries, which may change it. Pending calls then read a copy."""
        value = self._value
        data = value.data
        if value.owned and value.awaited:
            self._value = value.with_data(data)
            self._value.holder = weakref.ref(self)
            value.set(copied(data))
        value.owned = False
        return data

    def _copied(self) -> Self:
        """Return a copy that is made now, in each mode."""
        value = self._value.with_data(copied(self._value.data) if self._value.size else self._value.data)
        value.owned = True
        return type(self).from_value(value)

    def _call(self, operator: str, **arguments: Any) -> Self:
        result: Self = operations.call(operator, (self,), arguments)
        return result

    def _combine(self, operation: str, *operands: Any) -> Any:
        return self if operation == "pos" else operations.combine(operation, operands)

    def _index(self, key: Any) -> Any:
        return operations.subscript(self, key)

    def _converted(self, dtype: Any, device: Any, layout: str | None) -> Self:
        """Return the data in a type, on a device and with a layout, without a copy if possible."""
        result = self if device is None else self.to_device(device)
        traced = tracing.active() and not result._value.known  # its properties are unknown
        if dtype is not None and (traced or result.dtype != dtype):
            if dtype.kind is DType.Kind.enum:
                result = result._call("cast", dtype=DType.parse("int32"))
                result._value.enum = dtype
            else:
                result = result._call("cast", dtype=dtype)
        if layout is not None and traced:
            return result._call("reshape", layout=layout)
        if layout is not None and layout != (result.layout or ""):
            result = type(self).from_value(result._value.with_data(result._lend().with_layout(layout)))
        return result

    def _repr_html_(self) -> str:
        from dali_proxy.pipeline.tensors.notebook import as_html  # needs PIL, which other methods don't

        data = self._value.data
        return as_html(repr(self), data, data.layout())  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        if tracing.active() and not self._value.known:
            raise trace_error("this line depends on the truth value of a tensor")
        return self._truth()

    def _truth(self) -> bool:
        raise ArgumentTypeError(f"a {type(self).__name__} has no truth value")


class Tensor(Array):
    """One sample. `tensor` and `as_tensor` create it, and operators return it.

    Args:
        data: an array or tensor of any library, numbers in nested lists, a member of an enumeration, or a tensor.
        dtype: type of the elements; by default that of the data.
        device: device; by default that of the data.
        layout: names of the dimensions, such as "HWC".
        copy: whether to copy the data; by default only if necessary.

    Raises:
        ArgumentTypeError: `data` isn't a tensor.
        ArgumentValueError: the layout doesn't fit.

    Example:
        >>> Tensor([1, 2, 3]) * 2
        Tensor(
            [2 4 6],
            dtype=i32,
            device="cpu",
            shape=(3,))
    """

    def __init__(
        self, data: Any = None, dtype: Any = None, device: Any = None, layout: str | None = None, copy: bool = False
    ) -> None:
        made = operations.make_tensor(data, dtype, device, layout, copy)
        self._value = made._value
        self._value.holder = weakref.ref(self)

    @property
    def _sample(self) -> TensorCPU | TensorGPU:
        return self._lend()[0]

    _storage = _sample

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the dimensions."""
        return tuple(self._value.data.shape()[0])

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """The size of an element in bytes."""
        return self.dtype.bytes

    @property
    def nbytes(self) -> int:
        """The size of the data in bytes."""
        return self.size * self.itemsize

    def item(self) -> Any:
        """Return the only element as a Python number.

        Raises:
            ArgumentValueError: there isn't exactly one element.
        """
        if self.size != 1:
            raise ArgumentValueError(f"Tensor has {self.size} elements, expected 1")
        return np.asarray(self).item()

    def torch(self, copy: bool = False) -> Any:
        """Return a torch tensor on the same device, over the same memory if possible.

        Args:
            copy: whether to copy the data.
        """
        return _to_torch(self._sample, copy)

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return a NumPy array, over the same memory if the tensor is on the CPU."""
        return self._sample.as_cpu().as_array()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if self._value.device == "gpu":
            raise ArgumentTypeError("the tensor is on a GPU: call .cpu() to convert it to a NumPy array")
        return self._sample.__array__(dtype, copy)  # type: ignore[union-attr]

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self._value.device == "cpu":
            raise AttributeError("the tensor is on the CPU", name="__cuda_array_interface__", obj=self)
        return self._sample.__cuda_array_interface__  # type: ignore[union-attr]

    def __dlpack__(self, **arguments: Any) -> Any:
        return self._sample.__dlpack__(**arguments)

    def __dlpack_device__(self) -> Any:
        return self._sample.__dlpack_device__()

    def _truth(self) -> bool:
        return bool(self.cpu().item())

    def __int__(self) -> int:
        return int(self.cpu().item())

    def __index__(self) -> int:
        value = self.cpu().item()
        if not isinstance(value, int):
            raise ArgumentTypeError(f"only tensors of integers can be an index, not {self.dtype}")
        return value

    def __float__(self) -> float:
        return float(self.cpu().item())

    def __len__(self) -> int:
        if not self.shape:
            raise ArgumentTypeError("a tensor without dimensions has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        return _text(self)


class Batch(Array):
    """Samples with one type, layout and number of dimensions; their shapes may differ.

    `batch` and `as_batch` create it, and operators return it.

    Args:
        tensors: a list of tensors, an array whose first dimension is the batch dimension, or a batch.
        dtype: type of the elements; by default that of the data. Required for an empty list.
        device: device; by default that of the data.
        layout: names of the dimensions of a sample.
        copy: whether to copy the data; by default only if necessary.

    Raises:
        ArgumentTypeError: `tensors` isn't a batch.
        ArgumentValueError: the layout doesn't fit.

    Example:
        >>> Batch([[1, 2], [3]]).shape
        [(2,), (1,)]
    """

    def __init__(
        self, tensors: Any = None, dtype: Any = None, device: Any = None, layout: str | None = None, copy: bool = False
    ) -> None:
        made = operations.make_batch(tensors, dtype, device, layout, copy)
        self._value = made._value
        self._value.holder = weakref.ref(self)

    @staticmethod
    def broadcast(sample: Any, batch_size: int, device: Any = None, dtype: Any = None) -> Batch:
        """Return a batch that repeats a sample, without copies of it.

        Args:
            sample: a tensor, or data for one.
            batch_size: number of samples.
            device: device; by default that of the sample.
            dtype: type of the elements; by default that of the sample.
        """
        single: Tensor = operations.make_tensor(sample, dtype, device)
        storage = single._sample
        repeated = (TensorListGPU if isinstance(storage, TensorGPU) else TensorListCPU).broadcast(storage, batch_size)  # type: ignore[arg-type]
        return Batch.from_value(single._value.with_data(repeated))

    @property
    def _storage(self) -> TensorList:
        return self._lend()

    @property
    def batch_size(self) -> int:
        """The number of samples."""
        return self._value.size

    @property
    def shape(self) -> list[tuple[int, ...]]:
        """The shapes of the samples."""
        return [tuple(each) for each in self._value.data.shape()]

    @property
    def tensors(self) -> Sequence[Tensor]:
        """The samples."""
        return [self._at(index) for index in range(self.batch_size)]

    @property
    def slice(self) -> _Slicer:
        """Indexing of the samples: ``batch.slice[start:stop]``, whose bounds may be batches, too."""
        return _Slicer(self)

    def select(self, sample_range: Any) -> Batch | Tensor:
        """Return one sample, or a batch of several.

        Args:
            sample_range: an integer, a slice, or a list of integers.
        """
        if isinstance(sample_range, slice):
            sample_range = list(range(self.batch_size)[sample_range])
        if isinstance(sample_range, list | tuple):
            indices = np.asarray(sample_range, np.int64).reshape(-1)
            taken = take_samples(self._lend(), indices % max(1, self.batch_size))
            return Batch.from_value(self._value.with_data(taken))
        return self._at(range(self.batch_size)[sample_range])

    def torch(self, copy: bool | None = None, pad: bool = False) -> Any:
        """Return a torch tensor on the same device; its first dimension is the batch dimension.

        Args:
            copy: True to copy the data; False to raise an error if it must be copied; None to copy only if necessary.
            pad: whether samples of different shapes are padded with zeros.

        Raises:
            RaggedError: the shapes differ, and `pad` isn't set.
            ArgumentValueError: `copy` is False, but the samples aren't contiguous.
        """
        batch = self._call("pad") if pad else self
        batch._check_uniform()
        data = batch._lend()
        if copy is False and data.dense is None:
            raise ArgumentValueError("the samples of this batch aren't contiguous, so a copy is necessary")
        return _to_torch(data, bool(copy))

    def _check_uniform(self) -> None:
        if not self._value.data.is_dense_tensor():
            raise evaluation_error(
                RaggedError(
                    "The batch has a non-uniform shape. To convert it to a tensor, `pad` argument must be ``True``: "
                    f"{self.shape[:8]}"
                )
            )

    def _at(self, index: int) -> Tensor:
        data, source = self._lend(), self._value
        one = listed(data[index].as_array()[None], data.layout(), data)
        if data.sources:
            one.sources = (data.sources[index],)
        return Tensor.from_value(source.with_data(one))

    def _index(self, key: Any) -> Any:
        raise ArgumentTypeError(
            "a Batch can't be indexed, because that could mean samples or elements: use batch.select[...] or "
            "batch.tensors[...] for samples, and batch.slice[...] for elements of every sample"
        )

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.tensors)

    def __repr__(self) -> str:
        return _text(self)


class _Slicer:
    """Indexes each sample of a batch."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch

    def __getitem__(self, key: Any) -> Batch:
        result: Batch = operations.subscript(self._batch, key)
        return result


def listed(array: Any, layout: str, source: Any) -> TensorList:
    """Return a batch over an array of NumPy or CuPy, whose first dimension is the batch dimension.

    Args:
        array: the array.
        layout: layout of the samples.
        source: object that has the data; a tensor or a batch on a GPU knows when it may be read.
    """
    if isinstance(array, np.ndarray):
        return TensorListCPU(array, layout)
    result = TensorListGPU(array, layout)
    if isinstance(source, TensorGPU | TensorListGPU):
        result.ready, result.owner = source.ready, source.owner
        result.stream, result.lenders = source.stream, source.lenders
    return result


def is_array(value: Any) -> bool:
    """Return whether a value is a tensor or a batch."""
    return isinstance(value, Array)


def _to_torch(data: Any, copy: bool) -> Any:
    from dali_proxy.pipeline.tensors.interop import to_torch_tensor  # needs torch, which other methods don't

    return to_torch_tensor(data, copy=copy)


def _text(array: Tensor | Batch) -> str:
    if tracing.active() and not array._value.known:
        return f"{type(array).__name__}(traced, device={array._value.device!r})"
    data = array._value.data
    shown = data if isinstance(array, Batch) else data[0]
    text = str(shown).replace(type(shown).__name__, type(array).__name__, 1)
    return text.replace(f"dtype={data.dtype!r}", f"dtype={array.dtype}", 1)
