"""Linear maps of points, on CPU and GPU: shared by operators on points and boxes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dali_proxy.pipeline._declaration import OperatorSchema, implements_with
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._imaging import convert
from dali_proxy.pipeline._imaging.points import map_points
from dali_proxy.pipeline._kernels import Samples
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._kernels.vectors import as_vectors, stored_vectors
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import allocate, each_sample, samples_of
from dali_proxy.pipeline._operator_api.operator import BatchOperator
from dali_proxy.pipeline._operator_api.output_dtype import check_samples
from dali_proxy.pipeline._operator_api.pixel_operator import PixelOperator
from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline.errors import ArgumentValueError, PipelineError
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU
from dali_proxy.pipeline.types import FLOAT, to_numpy_type

# Largest size of a batch with samples padded to one shape, relative to its own size.
_PADDING = 4


@dataclass(frozen=True)
class LinearMap:
    """The map ``matrix @ point + offset`` in float32, or one for each of N samples.

    Attributes:
        matrix: (m, n), or (N, m, n).
        offset: (m,), or (N, m).
    """

    matrix: Array
    offset: Array


class LinearMaps(ABC):
    """The maps of a batch, one for each sample."""

    #: Whether outputs have the shapes of their inputs, even if `points` reshapes these.
    keeps_shape: ClassVar[bool] = False

    def __init__(self, batch: Batch, node: GraphNode) -> None:
        self.node = node
        self.arguments = batch.arguments(node)

    @abstractmethod
    def for_samples(self, samples: slice, shape: tuple[int, ...]) -> LinearMap | None:
        """Return the maps of samples whose points have the same shape; None if the maps' own shapes differ."""

    def for_sample(self, sample: int, shape: tuple[int, ...]) -> LinearMap:
        """Return the map of a sample whose points have `shape[-1]` coordinates."""
        maps = self.for_samples(slice(sample, sample + 1), shape)
        assert maps is not None
        return LinearMap(maps.matrix[0], maps.offset[0])

    def dtype(self, source: np.dtype[Any]) -> np.dtype[Any]:
        """Return the dtype of the output."""
        check_samples(source, (FLOAT,))
        return source

    def check(self, mapped: Array) -> None:  # noqa: B027 - most maps fit all coordinates
        """Warn of coordinates that mean something else than the operator expects. On the GPU, they aren't looked at."""

    def points(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of a sample as an array with one point in each row."""
        return shape


class BoxMaps(LinearMaps):
    """Maps of boxes as points of four coordinates. A subclass sets `matrices` and `offsets` of all samples."""

    keeps_shape = True
    matrices: Array
    offsets: Array

    def points(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        count = math.prod(shape)
        if not shape or (shape[-1] != 4 and (len(shape) > 1 or count % 4)):
            raise ArgumentValueError(f"boxes need 4 coordinates, but the sample has shape {shape}")
        return count // 4, 4

    def for_samples(self, samples: slice, shape: tuple[int, ...]) -> LinearMap:
        return LinearMap(self.matrices[samples], self.offsets[samples])


class LinearMapsCpu(BatchOperator):
    """Matrix products in float32, one call for small samples of one shape. One thread is enough for coordinates."""

    #: Class of the maps.
    maps: ClassVar[type[LinearMaps]]

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        (data,) = inputs
        maps = self.maps(batch, self.node)
        dtype = maps.dtype(to_numpy_type(data.dtype))
        result = _apply_to_all(maps, data, dtype)
        if result is not None:
            maps.check(result)
            return [TensorListCPU(result, data.layout())]
        rows = data.rows()
        if rows is not None and rows[0].ndim == 2:
            result = _apply_to_ragged(maps, rows[0], rows[1], dtype)
            if result is not None:
                maps.check(result)
                return [TensorListCPU.from_rows(result, rows[1], data.layout())]
        samples = map(np.asarray, data.samples)
        outputs = each_sample(lambda sample, array: _apply(maps, sample, array, dtype), range(batch.size), samples)
        return [TensorListCPU(outputs, data.layout())]


def _apply_to_all(maps: LinearMaps, data: TensorListCPU, dtype: np.dtype[Any]) -> Array | None:
    """Return the mapped points of samples of one shape; None if that must be done, or refused, for each sample."""
    found = _map_of_all(maps, data)
    if found is None:
        return None
    (rows,), linear = found
    shape = data.shape()[0]
    mapped = map_points(data.samples, math.prod(rows[:-1]), linear.matrix, linear.offset)
    if mapped is not None and dtype == np.float32:
        return mapped.reshape(len(data), *(shape if maps.keeps_shape else (*rows[:-1], mapped.shape[-1])))
    array = data.small_array()
    return None if array is None else _mapped(maps, array, array.reshape(len(array), *rows), linear, dtype)


def _map_of_all(maps: LinearMaps, data: TensorList) -> tuple[list[tuple[int, ...]], LinearMap] | None:
    """Return the shape of samples of one shape as points, and the maps; None if these must be found for each sample."""
    shapes = set(data.shape())
    return None if len(shapes) > 1 else _map_of_shape(maps, shapes.pop())


def _map_of_shape(maps: LinearMaps, shape: tuple[int, ...]) -> tuple[list[tuple[int, ...]], LinearMap] | None:
    """Do the same as `_map_of_all`, for samples of this shape."""
    try:
        rows = maps.points(shape)
        linear = maps.for_samples(slice(None), rows)
    except PipelineError:
        return None
    return None if linear is None else ([rows], linear)


def _apply_to_ragged(maps: LinearMaps, rows: Array, counts: Array, dtype: np.dtype[Any]) -> Array | None:
    """Return the mapped points of samples one after another; None if that must be done, or refused, for each sample.

    `rows` are the points of all samples, (M, n), and `counts` their number in each sample.
    """
    longest = int(counts.max())
    found = _map_of_shape(maps, (longest, rows.shape[1]))
    if found is not None and found[0] == [(longest, rows.shape[1])] and dtype == np.float32:
        mapped = map_points(rows, counts, found[1].matrix, found[1].offset)
        if mapped is not None:
            return mapped
    present = np.arange(longest) < counts[:, None]
    if present.size > _PADDING * len(rows):
        return None
    padded = np.zeros((*present.shape, rows.shape[1]), rows.dtype)
    padded[present] = rows
    result = _apply_to_all(maps, TensorListCPU(padded), dtype)
    return None if result is None or result.shape[:2] != present.shape else result[present]


def _apply(maps: LinearMaps, sample: int, data: Array, dtype: np.dtype[Any]) -> Array:
    """Return the mapped points of one sample."""
    points = data.reshape(maps.points(data.shape))
    return _mapped(maps, data, points, maps.for_sample(sample, points.shape), dtype)


def _mapped(maps: LinearMaps, data: Array, points: Array, linear: LinearMap, dtype: np.dtype[Any]) -> Array:
    rows = (1,) * (points.ndim - linear.matrix.ndim)  # the axes between the samples and the rows of points
    matrix, offset = linear.matrix, linear.offset
    if matrix.ndim > 2:
        matrix = matrix.reshape(len(matrix), *rows, *matrix.shape[1:])
        offset = offset.reshape(len(offset), *rows, 1, offset.shape[-1])
    mapped = points.astype(np.float32, copy=False) @ matrix.swapaxes(-1, -2)
    for coordinate in range(mapped.shape[-1]):  # a tenth of the time of broadcasting along the short last axis
        mapped[..., coordinate] += offset[..., coordinate]
    return convert(mapped, dtype).reshape(data.shape if maps.keeps_shape else mapped.shape)


class LinearMapsGpu(PixelOperator):
    """Points are pixels, and coordinates are their channels."""

    traits = replace(PixelOperator.traits, elementwise=True)

    #: Class of the maps.
    maps: ClassVar[type[LinearMaps]]

    def express(self, batch: Batch, pixels: PixelExpression) -> PixelExpression | None:
        points = as_vectors(pixels)
        if points is None:
            return None
        try:
            maps = self.maps(batch, self.node)
            dtype = maps.dtype(points.dtype)
            largest = points.kept("largest", lambda: tuple(points.shapes.max(axis=0).tolist()))
            linear = maps.for_samples(slice(None), maps.points(largest))
        except PipelineError:
            return None  # `run` reports the error
        if linear is None or linear.matrix.shape[-1] != points.channels:
            return None
        coordinates = linear.matrix.shape[-2]
        if maps.keeps_shape and coordinates != points.channels:
            return None
        return points.matrix(linear.matrix, linear.offset, dtype)

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        """Do the same for points in any dimensions, with maps that are found, or refused, for each sample."""
        data = self.contiguous(inputs[0], batch.stream)
        source = samples_of(data)
        maps = self.maps(batch, self.node)
        dtype = maps.dtype(source.dtype)
        common = _map_of_all(maps, data)
        rows, linear = self._each(maps, source) if common is None else common
        points = np.broadcast_to(np.array(rows, np.int64), (batch.size, len(rows[0])))
        mapped = points.copy()
        mapped[:, -1] = linear.matrix.shape[1]
        output, target = allocate(source.shapes if maps.keeps_shape else mapped, dtype, data.layout())
        vectors = stored_vectors(_reshaped(source, points), "", data)
        if vectors is None:
            raise ArgumentValueError("the points have no coordinates")
        result = vectors.matrix(linear.matrix, linear.offset, dtype)
        self.launch(result.launch(_reshaped(target, mapped)), batch)
        return [output]

    @staticmethod
    def _each(maps: LinearMaps, source: Samples) -> tuple[list[tuple[int, ...]], LinearMap]:
        """Return the shapes of the samples as points, and the maps, computed for one sample after the other."""

        def described(sample: int, shape: list[int]) -> tuple[tuple[int, ...], LinearMap]:
            row = maps.points(tuple(shape))
            return row, maps.for_sample(sample, row)

        rows, linear = zip(*each_sample(described, range(len(source)), source.shapes.tolist()), strict=True)
        if len({each.matrix.shape for each in linear}) > 1:
            raise ArgumentValueError("the matrices of a batch must have the same shape on the GPU")
        matrices, offsets = np.stack([each.matrix for each in linear]), np.stack([each.offset for each in linear])
        return list(rows), LinearMap(matrices, offsets)


def _reshaped(samples: Samples, shapes: Array) -> Samples:
    """Return contiguous samples as rows of points, given their shapes as arrays of points."""
    rows = np.stack([shapes[:, :-1].prod(axis=1), shapes[:, -1]], axis=1)
    return Samples.contiguous(samples.pointers, rows, samples.dtype)


def maps_points(schema: OperatorSchema) -> Callable[[type[LinearMaps]], type[LinearMaps]]:
    """Return a class decorator that implements an operator, on all its devices, by the maps of the class."""
    return implements_with(schema, "maps", cpu=LinearMapsCpu, gpu=LinearMapsGpu)
