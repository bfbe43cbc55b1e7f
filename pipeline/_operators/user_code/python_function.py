"""`python_function` and variants: user functions on arrays, DLPack capsules or torch tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import REQUIRED, Argument, Input, Kind, OperatorSchema
from pipeline._graph.graph import GraphNode
from pipeline._graph.reasons import reason_of
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.operator import BatchOperator, Setup
from pipeline.errors import ArgumentTypeError, ArgumentValueError, InputError, OperatorError, SampleFailure
from pipeline.tensors.cpu import TensorListCPU
from pipeline.tensors.gpu import TensorListGPU

__all__ = ["DL_TENSOR_PYTHON_FUNCTION", "PYTHON_FUNCTION", "TORCH_PYTHON_FUNCTION"]


def _outputs(arguments: Mapping[str, Any]) -> int:
    return int(arguments.get("num_outputs", 1))


def _declare(name: str, doc: str, batches: bool, *arguments: Argument, hidden: bool = False) -> OperatorSchema:
    doc += """

The function receives a sample of each input, or with `batch_processing` a list of samples of each input. It returns an
output, or a tuple or list of `num_outputs` outputs. It runs in one thread, in the order of batches and samples. It must
not modify its arguments. It runs even if no output of the pipeline depends on it."""
    return register(
        OperatorSchema(
            name=name,
            doc=doc,
            inputs=(Input("data", "Samples of any shape.", optional=True),),
            arguments=(
                Argument("function", Kind.OBJECT, "The function.", REQUIRED),
                Argument("num_outputs", Kind.INT, "Number of outputs that the function returns, or 0.", 1),
                Argument("batch_processing", Kind.BOOL, "Call the function once per batch, with lists.", batches),
                Argument(
                    "output_layouts",
                    Kind.STRINGS,
                    "Layouts of the outputs, or of the first ones.",
                ),
                *arguments,
            ),
            devices=("cpu", "gpu"),
            outputs=_outputs,
            variadic=True,
            side_effects=True,
            hidden=hidden,
            class_parameters=(
                ("function", None),
                ("num_outputs", 1),
                ("device", None),
                *((each.name, each.default) for each in arguments),
                ("batch_processing", batches and not hidden),
            ),
        )
    )


_SYNCHRONIZE = Argument("synchronize_stream", Kind.BOOL, "On the GPU, wait for the inputs before the call.", True)
PYTHON_FUNCTION = _declare(
    "python_function", "Runs a Python function on NumPy arrays, on the GPU on CuPy arrays.", False
)
DL_TENSOR_PYTHON_FUNCTION = _declare(
    "dl_tensor_python_function", "Runs a Python function on DLPack capsules.", True, _SYNCHRONIZE
)
TORCH_PYTHON_FUNCTION = _declare("torch_python_function", "Runs a Python function on torch tensors.", True, hidden=True)


class _PythonFunction(BatchOperator):
    """Calls the function for each sample, or once per batch."""

    in_order = True
    waits = True

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._function = node.argument("function")
        self._count = _outputs(node.arguments)
        layouts = node.argument("output_layouts") or ()
        if not callable(self._function):
            raise ArgumentTypeError(f"argument 'function' must be callable, not {type(self._function).__name__}")
        if self._count < 0:
            raise ArgumentValueError(f"argument 'num_outputs' must be 0 or more, not {self._count}")
        if len(layouts) > self._count:
            raise ArgumentValueError(f"{len(layouts)} output_layouts for {self._count} outputs")
        self._layouts = [*layouts, *[""] * (self._count - len(layouts))]

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        columns = [[self.to_argument(sample) for sample in _samples(value)] for value in inputs]
        with self.call_context(batch):
            if self.node.argument("batch_processing"):
                outputs = self._call_once(columns, batch.size)
            else:
                outputs = self._call_each(columns, batch.size)
            arrays = [[self.to_array(value) for value in column] for column in outputs]
        kind = TensorListGPU if self.node.device == "gpu" else TensorListCPU
        return [kind(column, layout) for column, layout in zip(arrays, self._layouts, strict=True)]

    @contextmanager
    def call_context(self, batch: Batch) -> Iterator[None]:
        """Return a context for the calls and the conversion of their results."""
        yield

    def to_argument(self, sample: Any) -> Any:
        """Return a sample as an argument of the function."""
        return sample

    def to_array(self, value: Any) -> Any:
        """Return a result of the function as a NumPy or CuPy array.

        Raises:
            InputError: the result isn't an array of numbers.
        """
        return _array(value, self.node.device)

    def _call_once(self, columns: list[list[Any]], size: int) -> list[list[Any]]:
        returned = self._unpack(self._function(*columns))
        for number, column in enumerate(returned):
            if not hasattr(column, "__len__") or len(column) != size:
                found = f"{len(column)} samples" if hasattr(column, "__len__") else type(column).__name__
                raise InputError(f"the function returned {found} as output {number}, but the batch has {size} samples")
        return [list(column) for column in returned]

    def _call_each(self, columns: list[list[Any]], size: int) -> list[list[Any]]:
        rows = []
        for sample in range(size):
            try:
                rows.append(self._unpack(self._function(*(column[sample] for column in columns))))
            except BaseException as error:
                kind = OperatorError.type_for(error)
                raise kind(reason_of(error), failures=(SampleFailure(sample, error),)) from error
        return [list(column) for column in zip(*rows, strict=True)]

    def _unpack(self, returned: Any) -> tuple[Any, ...]:
        if self._count == 0:
            return ()
        several = isinstance(returned, tuple) or (isinstance(returned, list) and self._count > 1)
        values = tuple(returned) if several else (returned,)
        if self._count == 1:
            values = values[:1]  # as in DALI
        if returned is None or len(values) != self._count:
            count = 0 if returned is None else len(values)
            raise InputError(f"the function returned {count} outputs, but num_outputs is {self._count}")
        return values


class _DlPackFunction(_PythonFunction):
    """Passes capsules to the function."""

    @contextmanager
    def call_context(self, batch: Batch) -> Iterator[None]:
        if batch.stream is not None and self.node.argument("synchronize_stream"):
            batch.stream.synchronize()
        yield

    def to_argument(self, sample: Any) -> Any:
        writeable = getattr(getattr(sample, "flags", None), "writeable", True)  # a capsule can't be marked as read-only
        return (sample if writeable else np.array(sample)).__dlpack__()

    def to_array(self, value: Any) -> Any:
        if type(value).__name__ != "PyCapsule":
            return super().to_array(value)
        return super().to_array(_Capsule(value, self.node.device, self.setup.device_id or 0))


class _Capsule:
    """A DLPack capsule as an object with the methods of the protocol."""

    def __init__(self, capsule: Any, device: str, device_id: int) -> None:
        self._capsule = capsule
        self._device = (2, device_id) if device == "gpu" else (1, 0)

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device


class _TorchFunction(_PythonFunction):
    """Passes tensors that share the memory of the samples to the function."""

    @contextmanager
    def call_context(self, batch: Batch) -> Iterator[None]:
        import torch

        if self.node.device == "cpu":
            yield
            return
        stream = torch.cuda.ExternalStream(batch.stream.ptr, device=self.setup.device_id)  # type: ignore[no-untyped-call]
        with torch.cuda.stream(stream):
            yield

    def to_argument(self, sample: Any) -> Any:
        import torch
        import torch.utils.dlpack

        if isinstance(sample, np.ndarray):
            return torch.from_numpy(sample if sample.flags.writeable else np.array(sample))
        return torch.utils.dlpack.from_dlpack(sample)

    def to_array(self, value: Any) -> Any:
        is_tensor = hasattr(value, "detach") and hasattr(value, "device")  # file objects have detach(), too
        return super().to_array(value.detach() if is_tensor else value)


def _samples(value: Any) -> list[Any]:
    if isinstance(value, TensorListCPU) and value.dense is not None and value.ndim == 0:
        return [value.dense[sample, ...] for sample in range(len(value))]
    return list(value.samples)


def _array(value: Any, device: str) -> Any:
    if device == "gpu":
        import cupy

        array = cupy.asarray(cupy.from_dlpack(value) if hasattr(value, "__dlpack__") else value, order="C")
    elif hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
        array = np.asarray(np.from_dlpack(value), order="C")
    else:
        array = np.asarray(value, order="C")
    if array.dtype.kind not in "biuf":
        raise InputError(f"the function returned {type(value).__name__}, which isn't an array of numbers")
    return array


@implements(PYTHON_FUNCTION, "cpu", "gpu")
class PythonFunction(_PythonFunction):
    """Runs a function on arrays; on the GPU, in the stream of the batch."""


@implements(DL_TENSOR_PYTHON_FUNCTION, "cpu", "gpu")
class DLTensorPythonFunction(_DlPackFunction):
    """Runs a function on capsules."""


@implements(TORCH_PYTHON_FUNCTION, "cpu", "gpu")
class TorchPythonFunction(_TorchFunction):
    """Runs a function on tensors; on the GPU, torch's current stream is that of the batch."""
