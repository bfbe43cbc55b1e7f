"""Memory for the samples of a batch on the CPU whose shapes are known before they are written."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._bulk.buffer_pool import BufferPool
from dali_proxy.pipeline._graph.graph import Edge
from dali_proxy.pipeline._kernels.samples import Samples
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline.tensors.cpu import TensorListCPU


def allocate_samples(
    batch: Batch,
    edge: Edge,
    shapes: npt.NDArray[np.int64],
    dtype: np.dtype[Any],
    layout: str,
    buffers: BufferPool,
    for_gpu: bool,
) -> TensorListCPU:
    """Return uninitialized samples in one block of memory: a dense batch if all have one shape.

    Args:
        batch: the batch.
        edge: the output.
        shapes: (N, ndim) shapes of the samples.
        dtype: their dtype.
        layout: their layout.
        buffers: allocator of memory.
        for_gpu: whether a GPU may read the samples. Otherwise, samples of one shape use memory of the batch's outputs.
    """
    shape = (len(shapes), *shapes[0].tolist()) if (shapes == shapes[0]).all() else None
    if shape is not None and not for_gpu:
        array, owner = batch.allocate(edge, shape, dtype)
        samples = TensorListCPU.from_dense(array, layout)
        samples.owner = owner
        return samples
    if shape is not None:
        memory, is_pinned = buffers.memory(math.prod(shape) * dtype.itemsize)
        samples = TensorListCPU.from_dense(memory.view(dtype).reshape(shape), layout)
    else:
        table, nbytes = Samples.packed(0, shapes, dtype)
        memory, is_pinned = buffers.memory(nbytes)
        placed = replace(table, pointers=memory.ctypes.data + table.pointers)
        samples = TensorListCPU.from_table(placed, [memory], layout=layout)
    samples.pinned = is_pinned
    return samples
