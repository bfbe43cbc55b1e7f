"""Applies linear maps to points."""

from __future__ import annotations

from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import Argument, Input, Kind, Role, declare_operator
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.output_dtype import check_samples
from dali_proxy.pipeline._operators.boxes.linear_maps import LinearMap, LinearMaps, maps_points
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array
from dali_proxy.pipeline.types import FLOAT, INT8, INT16, INT32, UINT8, UINT16, UINT32, DALIDataType, to_numpy_type

_DTYPES = (UINT8, INT8, UINT16, INT16, UINT32, INT32, FLOAT)

COORD_TRANSFORM = declare_operator(
    name="coord_transform",
    role=Role.MAPPED_POINTS,
    doc="Applies a linear map to points: M * point + T.",
    inputs=(Input("points", "Of shape (..., n): FLOAT or integers of up to 32 bits."),),
    arguments=(
        Argument("M", Kind.FLOATS, "Matrix of m rows and n columns; a single number fills the diagonal.", None, True),
        Argument("T", Kind.FLOATS, "Offset: m numbers, or one for all coordinates.", None, True),
        Argument(
            "MT", Kind.FLOATS, "`M` and `T` as one matrix of n + 1 columns; can't be used with either.", None, True
        ),
        Argument("dtype", Kind.DTYPE, "Dtype of the output: FLOAT, or that of the input.", DALIDataType.FLOAT),
    ),
    devices=("cpu", "gpu"),
)


@maps_points(COORD_TRANSFORM)
class _Transforms(LinearMaps):
    """The linear map of each sample, from the arguments `M` and `T`, or from `MT`."""

    def __init__(self, batch: Batch, node: GraphNode) -> None:
        super().__init__(batch, node)
        self._size = batch.size
        self._rows = {
            name: self.arguments.optional(self.arguments.table, name, np.float32) for name in ("M", "T", "MT")
        }
        if self._rows["MT"] is not None and (self._rows["M"] is not None or self._rows["T"] is not None):
            raise ArgumentValueError("argument 'MT' can't be given together with 'M' or 'T'")

    def dtype(self, source: np.dtype[Any]) -> np.dtype[Any]:
        check_samples(source, _DTYPES)
        dtype = to_numpy_type(self.node.argument("dtype"))
        if dtype not in (np.float32, source):
            raise ArgumentValueError(f"argument 'dtype' must be FLOAT or the input's dtype, {source}, not {dtype}")
        return dtype

    def for_samples(self, samples: slice, shape: tuple[int, ...]) -> LinearMap | None:
        if len(shape) < 2:
            raise ArgumentValueError(f"points in rows are required, but the sample has shape {shape}")
        columns = shape[-1]
        rows = [None if values is None else values[samples] for values in self._rows.values()]
        if any(len(set(map(len, values))) > 1 for values in rows if isinstance(values, list)):
            return None
        linear, offsets, both = (None if values is None else np.asarray(values) for values in rows)
        if both is not None and both.shape[1] > 1:
            joined = self._matrices("MT", both, columns + 1)
            return LinearMap(joined[..., :-1], joined[..., -1])
        linear = both if linear is None else linear
        count = len(range(self._size)[samples])
        matrices = np.ones((count, 1), np.float32) if linear is None else linear
        matrices = self._matrices("M", matrices, columns)
        height = matrices.shape[1]
        if offsets is None:
            offsets = np.zeros((count, 1), np.float32)
        if offsets.shape[1] not in (1, height):
            raise ArgumentValueError(f"argument 'T' needs {height} values, but has {offsets.shape[1]}")
        return LinearMap(matrices, np.broadcast_to(offsets, (count, height)))

    @staticmethod
    def _matrices(name: str, rows: Array, columns: int) -> Array:
        length = rows.shape[1]
        if length == 1:
            return rows[:, :, None] * np.eye(columns, dtype=np.float32)
        if not length or length % columns:
            raise ArgumentValueError(f"argument {name!r} of {length} values isn't a matrix of {columns} columns")
        return rows.reshape(len(rows), -1, columns)
