"""Linear maps of points, on CPU and GPU: shared by `bb_flip`, `coord_flip` and `coord_transform`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pipeline._graph.graph import GraphNode
from pipeline._imaging import convert
from pipeline._kernels import Samples, transform_pixels
from pipeline._kernels.samples import contiguous_strides
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.gpu_operator import GpuOperator, allocate, fail, samples_of
from pipeline._operator_api.operator import BatchOperator
from pipeline._operator_api.output_dtype import check_samples
from pipeline.errors import ArgumentValueError, PipelineError
from pipeline.tensors.cpu import Array, TensorListCPU
from pipeline.types import FLOAT

__all__ = ["LinearMap", "LinearMaps", "LinearMapsCpu", "LinearMapsGpu"]


@dataclass(frozen=True)
class LinearMap:
    """The map ``matrix @ point + offset`` in float32.

    Attributes:
        matrix: (m, n).
        offset: (m,).
    """

    matrix: Array
    offset: Array


class LinearMaps(ABC):
    """The maps of a batch, one for each sample.

    Args:
        batch: the batch.
        node: the operator.
    """

    #: Whether outputs have the shapes of their inputs, even if `points` reshapes these.
    keeps_shape: ClassVar[bool] = False

    def __init__(self, batch: Batch, node: GraphNode) -> None:
        self.node = node
        self.arguments = batch.arguments(node)

    @abstractmethod
    def for_sample(self, sample: int, shape: tuple[int, ...]) -> LinearMap:
        """Return the map of a sample whose points have `shape[-1]` coordinates."""

    def dtype(self, source: np.dtype[Any]) -> np.dtype[Any]:
        """Return the dtype of the output."""
        check_samples(source, (FLOAT,))
        return source

    def points(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of a sample as an array with one point in each row."""
        return shape

    def _scalars(self, name: str) -> Array:
        values = self.arguments.scalars(name)
        assert values is not None
        return values


class LinearMapsCpu(BatchOperator):
    """One matrix product per sample, in float32. One thread is enough, because there are few coordinates."""

    #: Class of the maps.
    maps: ClassVar[type[LinearMaps]]

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        (data,) = inputs
        maps = self.maps(batch, self.node)
        dtype = maps.dtype(data.samples[0].dtype)
        outputs: list[Array] = []
        failures: list[tuple[int, PipelineError]] = []
        for sample, array in enumerate(data.samples):
            try:
                outputs.append(_apply(maps, sample, np.asarray(array), dtype))
            except PipelineError as error:
                failures.append((sample, error))
        fail(failures)
        return [TensorListCPU(outputs, data.layout())]


def _apply(maps: LinearMaps, sample: int, data: Array, dtype: np.dtype[Any]) -> Array:
    """Return the mapped points of one sample."""
    points = data.reshape(maps.points(data.shape))
    linear = maps.for_sample(sample, points.shape)
    mapped = points.astype(np.float32, copy=False) @ linear.matrix.T
    mapped += linear.offset
    shape = data.shape if maps.keeps_shape else (*points.shape[:-1], len(linear.matrix))
    result: Array = convert(mapped, dtype).reshape(shape)
    return result


class LinearMapsGpu(GpuOperator):
    """One launch per batch."""

    only_launches = True

    #: Class of the maps.
    maps: ClassVar[type[LinearMaps]]

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        data = self.contiguous(inputs[0], batch.stream)
        source = samples_of(data)
        maps = self.maps(batch, self.node)
        dtype = maps.dtype(source.dtype)
        linear: list[LinearMap] = []
        rows: list[tuple[int, ...]] = []
        failures: list[tuple[int, PipelineError]] = []
        for sample, shape in enumerate(source.shapes.tolist()):
            try:
                rows.append(maps.points(tuple(shape)))
                linear.append(maps.for_sample(sample, rows[-1]))
            except PipelineError as error:
                failures.append((sample, error))
        fail(failures)
        if len({each.matrix.shape for each in linear}) > 1:
            raise ArgumentValueError("the matrices of a batch must have the same shape on the GPU")
        points = np.array(rows, np.int64)
        mapped = points.copy()
        mapped[:, -1] = len(linear[0].matrix)
        output, target = allocate(source.shapes if maps.keeps_shape else mapped, dtype, data.layout())
        matrices, offsets = np.stack([each.matrix for each in linear]), np.stack([each.offset for each in linear])
        source, target = _reshaped(source, points), _reshaped(target, mapped)
        transform_pixels(self.kernels, batch.stream, source, target, matrix=matrices, offset=offsets)
        return [output]


def _reshaped(samples: Samples, shapes: Array) -> Samples:
    """Return a view of contiguous samples with other shapes."""
    return Samples(samples.pointers, shapes, contiguous_strides(shapes, samples.dtype.itemsize), samples.dtype)
