"""Mirrors points."""

from __future__ import annotations

import numpy as np

from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operators.boxes.linear_maps import LinearMap, LinearMaps, maps_points
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array

_AXES = "xyz"
_MIRRORED, _KEPT = np.float32(-1), np.float32(1)
_DIAGONALS = np.eye(len(_AXES), dtype=np.float32)


def _flip(axis: str) -> Argument:
    return Argument(f"flip_{axis}", Kind.INT, f"Nonzero mirrors {axis}.", int(axis == "x"), per_sample=True)


def _center(axis: str) -> Argument:
    doc = f"The value of {axis} that mirroring doesn't change."
    return Argument(f"center_{axis}", Kind.FLOAT, doc, 0.5, per_sample=True)


COORD_FLIP = declare_operator(
    name="coord_flip",
    doc="Mirrors points about a centre.",
    inputs=(Input("points", "FLOAT, a point of one to three coordinates in each row."),),
    arguments=(
        *map(_flip, _AXES),
        *map(_center, _AXES),
        Argument("layout", Kind.LAYOUT, 'Order of the coordinates; "xyz" by default.', ""),
    ),
    devices=("cpu", "gpu"),
)


@maps_points(COORD_FLIP)
class _PointFlips(LinearMaps):
    """Maps with diagonal matrices."""

    def __init__(self, batch: Batch, node: GraphNode) -> None:
        super().__init__(batch, node)
        self._layout = layout = node.argument("layout") or _AXES
        if len(set(layout)) < len(layout) or set(layout) - set(_AXES):
            raise ArgumentValueError(f"argument 'layout' must name x, y and z at most once each, not {layout!r}")
        #: Matrices and offsets of all samples, by the number of coordinates.
        self._maps: dict[int, tuple[Array, Array]] = {}
        self._size = batch.size

    def for_samples(self, samples: slice, shape: tuple[int, ...]) -> LinearMap:
        count = shape[-1] if shape else 0
        if len(shape) != 2 or count > len(self._layout):
            raise ArgumentValueError(
                f"points in rows of at most {len(self._layout)} coordinates are required, but the sample has shape "
                f"{shape}"
            )
        if count not in self._maps:
            self._maps[count] = self._flips(self._layout[:count])
        matrices, offsets = self._maps[count]
        return LinearMap(matrices[samples], offsets[samples])

    def _flips(self, axes: str) -> tuple[Array, Array]:
        """Return matrices and offsets of points with some coordinates."""
        signs, offsets = np.empty((self._size, len(axes)), np.float32), np.zeros((self._size, len(axes)))
        for column, axis in enumerate(axes):
            flips = self.arguments.scalars(f"flip_{axis}") != 0
            signs[:, column] = np.where(flips, _MIRRORED, _KEPT)
            np.multiply(2, self.arguments.scalars(f"center_{axis}"), out=offsets[:, column], where=flips)
        return signs[:, None] * _DIAGONALS[: len(axes), : len(axes)], offsets.astype(np.float32)
