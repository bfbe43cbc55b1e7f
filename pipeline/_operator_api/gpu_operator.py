"""What operators on the GPU share: a context for launches, descriptions of batches, and memory for results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline._graph.graph import GraphNode
from pipeline._kernels import KernelContext, Samples, strided_copy
from pipeline._operator_api.operator import BatchOperator, Setup
from pipeline.errors import OperatorError, PipelineError, SampleFailure
from pipeline.tensors.gpu import TensorListGPU

__all__ = ["GpuOperator", "allocate", "as_pipeline_error", "fail", "samples_of", "shape_table"]


class GpuOperator(BatchOperator):
    """An operator that launches kernels, at most a few for a whole batch.

    Args:
        node: the node of the graph.
        setup: sizes and devices.
    """

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._kernels = setup.kernels

    @property
    def kernels(self) -> KernelContext:
        """What runs kernels. Where launches are planned only, there is none."""
        assert self._kernels is not None  # the executor opened the GPU before it made operators for it
        return self._kernels

    def contiguous(self, data: TensorListGPU, stream: Any) -> TensorListGPU:
        """Return a batch whose samples are C-contiguous: this one, or a copy, made on the stream."""
        source = samples_of(data)
        if source.is_contiguous():
            return data
        made, target = allocate(source.shapes, source.dtype, data.layout())
        strided_copy(self.kernels, stream, source, target)
        return made


def samples_of(data: TensorListGPU) -> Samples:
    """Describe a batch for the kernels."""
    return data.table()


def shape_table(data: TensorListGPU) -> npt.NDArray[np.int64]:
    """Return the shapes of a batch as (N, ndim)."""
    shapes: npt.NDArray[np.int64] = data.table().shapes.copy()
    return shapes


def allocate(shapes: npt.NDArray[np.int64], dtype: np.dtype[Any], layout: str = "") -> tuple[TensorListGPU, Samples]:
    """Return memory for a batch on the current stream: one array when all shapes agree, else views of one buffer.

    Args:
        shapes: (N, ndim).
        dtype: of all samples.
        layout: of the batch.
    """
    import cupy

    if (shapes == shapes[0]).all():
        made = TensorListGPU(cupy.empty((len(shapes), *shapes[0].tolist()), dtype), layout)
        return made, Samples.dense(made.dense)
    samples, size = Samples.packed(0, shapes, dtype)
    memory = cupy.cuda.alloc(max(1, size))
    placed = Samples(samples.pointers + memory.ptr, samples.shapes, samples.strides, samples.dtype)
    return TensorListGPU.from_table(placed, memory, memory.device_id, layout), placed


def fail(failures: Sequence[tuple[int, PipelineError]]) -> None:
    """Raise the error of a batch of which samples can't be made; does nothing when there are none.

    Raises:
        OperatorError: with the failed samples.
    """
    if failures:
        raise OperatorError.of_samples([SampleFailure(sample, error) for sample, error in failures])


def as_pipeline_error(error: BaseException) -> PipelineError:
    """Return an error of a sample as one of ours."""
    return error if isinstance(error, PipelineError) else PipelineError(f"{type(error).__name__}: {error}")
