"""Base class and helpers of operators on the GPU: kernel launches, descriptions of batches, memory for results."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np

from dali_proxy.pipeline._arrays import Int64s
from dali_proxy.pipeline._cuda.context import KernelContext
from dali_proxy.pipeline._cuda.launch import Launch, LaunchPlan
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._kernels import Samples
from dali_proxy.pipeline._kernels.strided_copy import plan_strided_copy
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.operator import BatchOperator, Setup
from dali_proxy.pipeline._operator_api.traits import Traits
from dali_proxy.pipeline.errors import OperatorError, PipelineError, SampleFailure
from dali_proxy.pipeline.tensors.cpu import Array
from dali_proxy.pipeline.tensors.gpu import TensorListGPU

Result = TypeVar("Result")


class GpuOperator(BatchOperator):
    """An operator that launches kernels, at most a few per batch."""

    traits = Traits(only_launches=True, repeatable=True)
    supported_traits: ClassVar[tuple[str, ...]] = (*BatchOperator.supported_traits, "only_launches", "repeatable")

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._kernels = setup.kernels

    @property
    def kernels(self) -> KernelContext:
        """The context that runs kernels. An operator that only plans its launches must not use it."""
        assert self._kernels is not None  # the executor opens the GPU before it creates operators for it
        return self._kernels

    def launch(self, work: Launch | LaunchPlan | None, batch: Batch) -> None:
        """Issue a launch, or those of a plan, on the stream of a batch; do nothing without one."""
        if isinstance(work, Launch):
            self.kernels.run(work, batch.stream)
        elif work is not None:
            self.kernels.run_plan(work, batch.stream)

    def on_host(self, data: Any, batch: Batch) -> Sequence[Array]:
        """Return the samples of a batch as NumPy arrays; wait for those on the GPU."""
        if isinstance(data, TensorListGPU):
            self.kernels.flush()
            return [sample.get(stream=batch.stream) for sample in data.samples]
        samples: Sequence[Array] = data.samples
        return samples

    def contiguous(self, data: TensorListGPU, stream: Any) -> TensorListGPU:
        """Return a batch whose samples are C-contiguous: the same batch, or a copy that the stream computes."""
        source = samples_of(data)
        if source.is_contiguous():
            return data
        copy, target = allocate(source.shapes, source.dtype, data.layout())
        launch = plan_strided_copy(source, target)
        if launch is not None:
            self.kernels.run(launch, stream)
        return copy


def samples_of(data: TensorListGPU) -> Samples:
    """Return the description of a batch for kernels."""
    return data.table()


def shape_table(data: TensorListGPU) -> Int64s:
    """Return the shapes of the samples, of shape (N, ndim)."""
    shapes: Int64s = data.table().shapes.copy()
    return shapes


def allocate(
    shapes: Int64s, dtype: np.dtype[Any], layout: str = "", memory_of: Callable[[int], Any] = lambda nbytes: None
) -> tuple[TensorListGPU, Samples]:
    """Return memory for a batch on the current stream: one array if all shapes are the same, else views of one buffer.

    Args:
        shapes: shapes of the samples, of shape (N, ndim).
        dtype: dtype of all samples.
        layout: layout of the samples.
        memory_of: returns memory for one array, (bytes) -> `cupy.cuda.MemoryPointer`; None for CuPy's allocator.
    """
    import cupy

    if (shapes == shapes[0]).all():
        shape = (len(shapes), *shapes[0].tolist())
        array = cupy.ndarray(shape, dtype, memory_of(math.prod(shape) * dtype.itemsize))
        table = Samples.dense(array)
        return TensorListGPU.from_dense(array, layout, table), table
    samples, size = Samples.packed(0, shapes, dtype)
    memory = cupy.cuda.alloc(max(1, size))
    placed = Samples(samples.pointers + memory.ptr, samples.shapes, samples.strides, samples.dtype)
    return TensorListGPU.from_table(placed, memory, memory.device_id, layout), placed


def fail(failures: Sequence[tuple[int, PipelineError]]) -> None:
    """Raise the error of a batch with failed samples, by position; do nothing if there are none.

    Raises:
        OperatorError: samples failed; the error lists them.
    """
    if failures:
        raise OperatorError.from_failures([SampleFailure(sample, error) for sample, error in failures])


def each_sample(function: Callable[..., Result], *columns: Iterable[Any]) -> list[Result]:
    """Return the results of a function for the samples of a batch, with a value of each column.

    Raises:
        OperatorError: the function raised a `PipelineError`; the error lists all samples for which it did.
    """
    results: list[Result] = []
    failures: list[tuple[int, PipelineError]] = []
    for sample, values in enumerate(zip(*columns, strict=True)):
        try:
            results.append(function(*values))
        except PipelineError as error:
            failures.append((sample, error))
    fail(failures)
    return results


def as_pipeline_error(error: BaseException) -> PipelineError:
    """Return an error of a sample as a `PipelineError`."""
    return error if isinstance(error, PipelineError) else PipelineError(f"{type(error).__name__}: {error}")
