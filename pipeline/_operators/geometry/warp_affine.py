"""Warps samples by affine transforms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import Argument, Input, Kind, OperatorSchema
from pipeline._imaging import affine
from pipeline._operator_api.arguments import Arguments
from pipeline._operator_api.batch import Batch
from pipeline._operators.geometry.warps import WARP_ARGUMENTS, WARP_LAYOUTS, WarpCpu, WarpGpu, Warps
from pipeline.errors import ArgumentValueError
from pipeline.tensors.cpu import Array

__all__ = ["WARP_AFFINE"]

WARP_AFFINE = register(
    OperatorSchema(
        name="warp_affine",
        doc="""Warps images, volumes or sequences by affine transforms.

The product of the matrix and (x, y, 1) is the place in the input of which the output shows the value at (x, y). Places
count from the outer corner of the first pixel, whose centre is at (0.5, 0.5).""",
        inputs=(
            Input("data", f"Images, of one of the layouts {', '.join(WARP_LAYOUTS)}; HWC without a layout."),
            Input("mtx", "Instead of `matrix`: float32 of shape (2, 3), in space (3, 4).", True, any_device=True),
        ),
        arguments=(
            Argument("matrix", Kind.FLOATS, "The transform, row by row: 6 values, in space 12.", (), per_sample=True),
            Argument("inverse_map", Kind.BOOL, "The transform goes from the output to the input; False inverts.", True),
            *WARP_ARGUMENTS,
        ),
        devices=("cpu", "gpu"),
    )
)


class _AffineWarps(Warps):
    """By the matrices that are given."""

    def __init__(self, arguments: Arguments, layout: str, batch_size: int) -> None:
        super().__init__(arguments, layout, batch_size)
        self._rows = arguments.rows("matrix", np.float32)
        self._inverse = arguments.constant("inverse_map")

    @property
    def keeps_size(self) -> bool:
        return True

    def default_size(self, sample: int, spatial: Sequence[int]) -> tuple[int, ...]:
        return tuple(spatial)

    def matrices(self, sample: int, spatial: Sequence[int], size: Sequence[int], given: Array | None) -> Array:
        assert self._rows is not None
        shape = (self.ndim, self.ndim + 1)
        if given is None:
            row = self._rows[sample]
            if len(row) != shape[0] * shape[1]:
                raise ArgumentValueError(
                    f"argument 'matrix' needs {shape[0] * shape[1]} values, but has {len(row)}"
                    + ("; or pass the matrix as the second input" if not len(row) else "")
                )
            matrix = row.reshape(shape)
        elif given.shape[-2:] != shape or given.ndim > 2 + self.sequence:
            raise ArgumentValueError(f"the second input must have shape {shape}, not {given.shape}")
        else:
            matrix = given
        matrix = matrix.astype(np.float64)
        if self._inverse:
            return matrix
        try:
            return affine.invert(matrix)
        except np.linalg.LinAlgError as error:
            raise ArgumentValueError(f"the transform has no inverse: {matrix.tolist()}") from error


@implements(WARP_AFFINE, "cpu")
class WarpAffineCpu(WarpCpu):
    """By the matrices that are given."""

    def warps(self, batch: Batch, layout: str) -> Warps:
        return _AffineWarps(batch.arguments(self.node), layout, batch.size)


@implements(WARP_AFFINE, "gpu")
class WarpAffineGpu(WarpGpu):
    """By the matrices that are given."""

    def warps(self, batch: Batch, layout: str) -> Warps:
        return _AffineWarps(batch.arguments(self.node), layout, batch.size)
