"""Applies linear maps to points."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import Argument, Input, Kind, OperatorSchema
from pipeline._graph.graph import GraphNode
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.output_dtype import check_samples
from pipeline._operators.boxes.linear_maps import LinearMap, LinearMaps, LinearMapsCpu, LinearMapsGpu
from pipeline.errors import ArgumentValueError
from pipeline.tensors.cpu import Array
from pipeline.types import FLOAT, INT8, INT16, INT32, UINT8, UINT16, UINT32, DALIDataType, to_numpy_type

__all__ = ["COORD_TRANSFORM"]

_DTYPES = (UINT8, INT8, UINT16, INT16, UINT32, INT32, FLOAT)

COORD_TRANSFORM = register(
    OperatorSchema(
        name="coord_transform",
        doc="Applies a linear map to points: M * point + T.",
        inputs=(Input("points", "Of shape (..., n): FLOAT or integers of up to 32 bits."),),
        arguments=(
            Argument(
                "M", Kind.FLOATS, "Matrix of m rows and n columns; a single number fills the diagonal.", None, True
            ),
            Argument("T", Kind.FLOATS, "Offset: m numbers, or one for all coordinates.", None, True),
            Argument(
                "MT", Kind.FLOATS, "`M` and `T` as one matrix of n + 1 columns; can't be used with either.", None, True
            ),
            Argument("dtype", Kind.DTYPE, "Dtype of the output: FLOAT, or that of the input.", DALIDataType.FLOAT),
        ),
        devices=("cpu", "gpu"),
    )
)


class _Transforms(LinearMaps):
    """The linear map of each sample, from the arguments `M` and `T`, or from `MT`."""

    def __init__(self, batch: Batch, node: GraphNode) -> None:
        super().__init__(batch, node)
        self._rows = {name: self.arguments.rows(name, np.float32) for name in ("M", "T", "MT")}
        if self._rows["MT"] is not None and (self._rows["M"] is not None or self._rows["T"] is not None):
            raise ArgumentValueError("argument 'MT' can't be given together with 'M' or 'T'")

    def dtype(self, source: np.dtype[Any]) -> np.dtype[Any]:
        check_samples(source, _DTYPES)
        dtype = to_numpy_type(self.node.argument("dtype"))
        if dtype not in (np.float32, source):
            raise ArgumentValueError(f"argument 'dtype' must be FLOAT or the input's dtype, {source}, not {dtype}")
        return dtype

    def for_sample(self, sample: int, shape: tuple[int, ...]) -> LinearMap:
        if len(shape) < 2:
            raise ArgumentValueError(f"points in rows are required, but the sample has shape {shape}")
        columns = shape[-1]
        both = self._rows["MT"]
        if both is not None and len(both[sample]) > 1:
            joined = self._matrix("MT", both[sample], columns + 1)
            return LinearMap(joined[:, :-1], joined[:, -1])
        rows = self._rows["M"] if both is None else both
        matrix = np.eye(columns, dtype=np.float32) if rows is None else self._matrix("M", rows[sample], columns)
        offsets = self._rows["T"]
        offset = np.zeros(len(matrix), np.float32) if offsets is None else offsets[sample]
        if len(offset) not in (1, len(matrix)):
            raise ArgumentValueError(f"argument 'T' needs {len(matrix)} values, but has {len(offset)}")
        return LinearMap(matrix, np.broadcast_to(offset, len(matrix)))

    @staticmethod
    def _matrix(name: str, row: Array, columns: int) -> Array:
        if len(row) == 1:
            diagonal: Array = np.eye(columns, dtype=np.float32) * row[0]
            return diagonal
        if not len(row) or len(row) % columns:
            raise ArgumentValueError(f"argument {name!r} of {len(row)} values isn't a matrix of {columns} columns")
        matrix: Array = row.reshape(-1, columns)
        return matrix


@implements(COORD_TRANSFORM, "cpu")
class CoordinateTransformCpu(LinearMapsCpu):
    """Transforms points by linear maps."""

    maps = _Transforms


@implements(COORD_TRANSFORM, "gpu")
class CoordinateTransformGpu(LinearMapsGpu):
    """Transforms points by linear maps."""

    maps = _Transforms
