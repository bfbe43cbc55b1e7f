"""Warps samples by affine transforms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dali_proxy.pipeline._arrays import Int64s
from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._imaging import affine
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operators.geometry.warps import WARP_ARGUMENTS, WARP_LAYOUTS, Warps, warps_samples
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array

WARP_AFFINE = declare_operator(
    name="warp_affine",
    doc="""Warps images, volumes or sequences by affine transforms.

The output at (x, y) is the input at the position matrix * (x, y, 1). Positions are relative to the outer corner of the
first pixel, whose centre is at (0.5, 0.5).""",
    inputs=(
        Input("data", f"Images, of one of the layouts {', '.join(WARP_LAYOUTS)}; HWC without a layout."),
        Input("mtx", "Alternative to `matrix`: float32 of shape (2, 3); (3, 4) for volumes.", True, any_device=True),
    ),
    arguments=(
        Argument("matrix", Kind.FLOATS, "The transform, row by row: 6 values; 12 for volumes.", (), per_sample=True),
        Argument(
            "inverse_map",
            Kind.BOOL,
            "The transform maps the output to the input; False: the input to the output.",
            True,
        ),
        *WARP_ARGUMENTS,
    ),
    devices=("cpu", "gpu"),
)


@warps_samples(WARP_AFFINE)
class _AffineWarps(Warps):
    """Warps by `matrix` or the second input."""

    def __init__(self, batch: Batch, node: GraphNode, layout: str) -> None:
        super().__init__(batch, node, layout)
        arguments = batch.arguments(node)
        self._rows = arguments.optional(arguments.table, "matrix", np.float32)
        self._inverse = arguments.constant("inverse_map")

    @property
    def keeps_size(self) -> bool:
        return True

    def default_size(self, sample: int, spatial: Sequence[int]) -> tuple[int, ...]:
        return tuple(spatial)

    def all_matrices(self, spatial: Int64s, sizes: Int64s, matrices: Array | None) -> Array | None:
        shape = (len(spatial), self.ndim, self.ndim + 1)
        if matrices is not None and matrices.shape != shape:
            return None
        rows = self._rows if matrices is None else matrices
        try:
            given = np.asarray(rows, np.float64).reshape(shape)
            return given if self._inverse else affine.invert(given)
        except (ValueError, np.linalg.LinAlgError):  # which is an error of samples
            return None

    def matrices(self, sample: int, spatial: Sequence[int], size: Sequence[int], matrix: Array | None) -> Array:
        assert self._rows is not None
        shape = (self.ndim, self.ndim + 1)
        if matrix is None:
            row = self._rows[sample]
            if len(row) != shape[0] * shape[1]:
                raise ArgumentValueError(
                    f"`matrix` parameter must have {shape[0] * shape[1]} elements, but has {len(row)}"
                    + ("; or pass the matrix as the second input" if not len(row) else "")
                )
            matrix = row.reshape(shape)
        elif matrix.shape[-2:] != shape or matrix.ndim > 2 + self.sequence:
            raise ArgumentValueError(f"the second input must have shape {shape}, not {matrix.shape}")
        matrix = matrix.astype(np.float64)
        if self._inverse:
            return matrix
        try:
            return affine.invert(matrix)
        except np.linalg.LinAlgError as error:
            raise ArgumentValueError(f"the transform has no inverse: {matrix.tolist()}") from error
