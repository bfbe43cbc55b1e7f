"""Linear maps of coordinates: coord_transform, coord_flip and bb_flip."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import Argument, Input, Kind, OperatorSchema
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
from pipeline.types import FLOAT, INT8, INT16, INT32, UINT8, UINT16, UINT32, DALIDataType, to_numpy_type

__all__ = ["BB_FLIP", "COORD_FLIP", "COORD_TRANSFORM"]

_DTYPES = (UINT8, INT8, UINT16, INT16, UINT32, INT32, FLOAT)
_AXES = "xyz"


def _flag(name: str, doc: str, default: int) -> Argument:
    return Argument(name, Kind.INT, doc, default, per_sample=True)


def _center(axis: str) -> Argument:
    return Argument(f"center_{axis}", Kind.FLOAT, f"The value of {axis} that stays as it is.", 0.5, per_sample=True)


BB_FLIP = register(
    OperatorSchema(
        name="bb_flip",
        doc="Mirrors boxes, of which coordinates are relative to the image: 0 to 1.",
        inputs=(Input("boxes", "FLOAT, of shape (..., 4): x, y, width, height, or left, top, right, bottom."),),
        arguments=(
            _flag("horizontal", "Whether x is mirrored.", 1),
            _flag("vertical", "Whether y is mirrored.", 0),
            Argument("ltrb", Kind.BOOL, "Boxes are left, top, right, bottom.", False),
        ),
        devices=("cpu", "gpu"),
    )
)
COORD_FLIP = register(
    OperatorSchema(
        name="coord_flip",
        doc="Mirrors points at a centre.",
        inputs=(Input("points", "FLOAT, a point of one to three coordinates in each row."),),
        arguments=(
            *(_flag(f"flip_{axis}", f"Whether {axis} is mirrored.", int(axis == "x")) for axis in _AXES),
            *(_center(axis) for axis in _AXES),
            Argument("layout", Kind.LAYOUT, 'Order of the coordinates, by default that of "xyz".', ""),
        ),
        devices=("cpu", "gpu"),
    )
)
COORD_TRANSFORM = register(
    OperatorSchema(
        name="coord_transform",
        doc="Applies a linear map to points: M * point + T.",
        inputs=(Input("points", "Of shape (..., n): FLOAT or integers of up to 32 bits."),),
        arguments=(
            Argument(
                "M", Kind.FLOATS, "The matrix of m rows and n columns; a number is that on the diagonal.", None, True
            ),
            Argument("T", Kind.FLOATS, "What is added: m numbers, or one for all.", None, True),
            Argument(
                "MT", Kind.FLOATS, "Both, as one matrix of n + 1 columns; not together with `M` and `T`.", None, True
            ),
            Argument("dtype", Kind.DTYPE, "Dtype of the output: FLOAT, or that of the input.", DALIDataType.FLOAT),
        ),
        devices=("cpu", "gpu"),
    )
)


@dataclass(frozen=True)
class _Map:
    """One map, in float32: (m, n) and (m,)."""

    matrix: Array
    offset: Array


class _Maps:
    """The maps of a batch."""

    def __init__(self, batch: Batch, node: GraphNode) -> None:
        self.node = node
        self.arguments = batch.arguments(node)

    @abstractmethod
    def of(self, sample: int, shape: tuple[int, ...]) -> _Map:
        """Return the map of a sample, of which points have `shape[-1]` coordinates."""

    def dtype(self, source: np.dtype[Any]) -> np.dtype[Any]:
        """Return the dtype of the output."""
        check_samples(source, (FLOAT,))
        return source

    def points(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of a sample, a point in each row."""
        return shape

    def _scalars(self, name: str) -> Array:
        values = self.arguments.scalars(name)
        assert values is not None
        return values


class _BoxFlips(_Maps):
    def __init__(self, batch: Batch, node: GraphNode) -> None:
        super().__init__(batch, node)
        flips = [self._scalars(name) != 0 for name in ("horizontal", "vertical")]
        self._matrices = np.tile(np.eye(4, dtype=np.float32), (batch.size, 1, 1))
        self._offsets = np.zeros((batch.size, 4), np.float32)
        for axis, flip in enumerate(flips):
            low, high = axis, axis + 2
            self._offsets[flip, low] = 1
            self._matrices[flip, low, high] = -1
            if node.argument("ltrb"):
                self._matrices[flip, low, low] = self._matrices[flip, high, high] = 0
                self._matrices[flip, high, low] = -1
                self._offsets[flip, high] = 1
            else:
                self._matrices[flip, low, low] = -1

    def points(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        count = math.prod(shape)
        if not shape or (shape[-1] != 4 and (len(shape) > 1 or count % 4)):
            raise ArgumentValueError(f"boxes need 4 coordinates, but the sample has shape {shape}")
        return count // 4, 4

    def of(self, sample: int, shape: tuple[int, ...]) -> _Map:
        return _Map(self._matrices[sample], self._offsets[sample])


class _PointFlips(_Maps):
    def __init__(self, batch: Batch, node: GraphNode) -> None:
        super().__init__(batch, node)
        self._layout = layout = node.argument("layout") or _AXES
        if len(set(layout)) < len(layout) or set(layout) - set(_AXES):
            raise ArgumentValueError(f"argument 'layout' must name x, y and z at most once each, not {layout!r}")
        flips = np.stack([self._scalars(f"flip_{axis}") != 0 for axis in layout], axis=1)
        centers = np.stack([self._scalars(f"center_{axis}") for axis in layout], axis=1)
        self._matrices = np.where(flips, -1, 1).astype(np.float32)[:, None] * np.eye(len(layout), dtype=np.float32)
        self._offsets = np.where(flips, 2 * centers, 0).astype(np.float32)

    def of(self, sample: int, shape: tuple[int, ...]) -> _Map:
        count = shape[-1] if shape else 0
        if len(shape) != 2 or count > len(self._layout):
            raise ArgumentValueError(
                f"points in rows of at most {len(self._layout)} coordinates are required, but the sample has shape "
                f"{shape}"
            )
        return _Map(self._matrices[sample, :count, :count], self._offsets[sample, :count])


class _Transforms(_Maps):
    def __init__(self, batch: Batch, node: GraphNode) -> None:
        super().__init__(batch, node)
        self._rows = {name: self.arguments.rows(name, np.float32) for name in ("M", "T", "MT")}
        if self._rows["MT"] is not None and (self._rows["M"] is not None or self._rows["T"] is not None):
            raise ArgumentValueError("argument 'MT' can't be given together with 'M' or 'T'")

    def dtype(self, source: np.dtype[Any]) -> np.dtype[Any]:
        check_samples(source, _DTYPES)
        wanted = to_numpy_type(self.node.argument("dtype"))
        if wanted not in (np.float32, source):
            raise ArgumentValueError(f"argument 'dtype' must be FLOAT or the input's dtype, {source}, not {wanted}")
        return wanted

    def of(self, sample: int, shape: tuple[int, ...]) -> _Map:
        if len(shape) < 2:
            raise ArgumentValueError(f"points in rows are required, but the sample has shape {shape}")
        columns = shape[-1]
        both = self._rows["MT"]
        if both is not None and len(both[sample]) > 1:
            joined = self._matrix("MT", both[sample], columns + 1)
            return _Map(joined[:, :-1], joined[:, -1])
        rows = self._rows["M"] if both is None else both
        matrix = np.eye(columns, dtype=np.float32) if rows is None else self._matrix("M", rows[sample], columns)
        added = self._rows["T"]
        offset = np.zeros(len(matrix), np.float32) if added is None else added[sample]
        if len(offset) not in (1, len(matrix)):
            raise ArgumentValueError(f"argument 'T' needs {len(matrix)} values, but has {len(offset)}")
        return _Map(matrix, np.broadcast_to(offset, len(matrix)))

    @staticmethod
    def _matrix(name: str, row: Array, columns: int) -> Array:
        if len(row) == 1:
            diagonal: Array = np.eye(columns, dtype=np.float32) * row[0]
            return diagonal
        if not len(row) or len(row) % columns:
            raise ArgumentValueError(f"argument {name!r} of {len(row)} values isn't a matrix of {columns} columns")
        made: Array = row.reshape(-1, columns)
        return made


_KINDS: dict[str, type[_Maps]] = {"bb_flip": _BoxFlips, "coord_flip": _PointFlips, "coord_transform": _Transforms}


@implements(BB_FLIP, "cpu")
@implements(COORD_FLIP, "cpu")
@implements(COORD_TRANSFORM, "cpu")
class CoordinatesCpu(BatchOperator):
    """A product of matrices a sample, in float32; all on one thread: there are few coordinates."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        (data,) = inputs
        maps = _KINDS[self.node.operator](batch, self.node)
        dtype = maps.dtype(data.samples[0].dtype)
        made: list[Array] = []
        failures: list[tuple[int, PipelineError]] = []
        for sample, array in enumerate(data.samples):
            try:
                made.append(_apply(maps, sample, np.asarray(array), dtype))
            except PipelineError as error:
                failures.append((sample, error))
        fail(failures)
        return [TensorListCPU(made, data.layout())]


def _apply(maps: _Maps, sample: int, data: Array, dtype: np.dtype[Any]) -> Array:
    """Return one sample's points where its map takes them."""
    points = data.reshape(maps.points(data.shape))
    chosen = maps.of(sample, points.shape)
    made = points.astype(np.float32, copy=False) @ chosen.matrix.T
    made += chosen.offset
    shape = (*points.shape[:-1], len(chosen.matrix)) if points.shape == data.shape else data.shape
    result: Array = convert(made, dtype).reshape(shape)
    return result


@implements(BB_FLIP, "gpu")
@implements(COORD_FLIP, "gpu")
@implements(COORD_TRANSFORM, "gpu")
class CoordinatesGpu(GpuOperator):
    """One launch a batch."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        data = self.contiguous(inputs[0], batch.stream)
        source = samples_of(data)
        maps = _KINDS[self.node.operator](batch, self.node)
        dtype = maps.dtype(source.dtype)
        chosen: list[_Map] = []
        rows: list[tuple[int, ...]] = []
        failures: list[tuple[int, PipelineError]] = []
        for sample, shape in enumerate(source.shapes.tolist()):
            try:
                rows.append(maps.points(tuple(shape)))
                chosen.append(maps.of(sample, rows[-1]))
            except PipelineError as error:
                failures.append((sample, error))
        fail(failures)
        if len({each.matrix.shape for each in chosen}) > 1:
            raise ArgumentValueError("the matrices of a batch must have the same shape on the GPU")
        given = np.array(rows, np.int64)
        wanted = given.copy()
        wanted[:, -1] = len(chosen[0].matrix)
        made, target = allocate(source.shapes if isinstance(maps, _BoxFlips) else wanted, dtype, data.layout())
        matrices, offsets = np.stack([each.matrix for each in chosen]), np.stack([each.offset for each in chosen])
        source, target = _in_rows(source, given), _in_rows(target, wanted)
        transform_pixels(self.kernels, batch.stream, source, target, matrix=matrices, offset=offsets)
        return [made]


def _in_rows(samples: Samples, shapes: Array) -> Samples:
    """Return contiguous samples seen with other shapes."""
    return Samples(samples.pointers, shapes, contiguous_strides(shapes, samples.dtype.itemsize), samples.dtype)
