"""Mirrors points."""

from __future__ import annotations

import numpy as np

from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import Argument, Input, Kind, OperatorSchema
from pipeline._graph.graph import GraphNode
from pipeline._operator_api.batch import Batch
from pipeline._operators.boxes.linear_maps import LinearMap, LinearMaps, LinearMapsCpu, LinearMapsGpu
from pipeline.errors import ArgumentValueError

__all__ = ["COORD_FLIP"]

_AXES = "xyz"
_MIRRORED, _KEPT = np.float32(-1), np.float32(1)
_DIAGONALS = np.eye(len(_AXES), dtype=np.float32)


def _flip(axis: str) -> Argument:
    return Argument(f"flip_{axis}", Kind.INT, f"Nonzero mirrors {axis}.", int(axis == "x"), per_sample=True)


def _center(axis: str) -> Argument:
    doc = f"The value of {axis} that mirroring doesn't change."
    return Argument(f"center_{axis}", Kind.FLOAT, doc, 0.5, per_sample=True)


COORD_FLIP = register(
    OperatorSchema(
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
)


class _PointFlips(LinearMaps):
    """Maps with diagonal matrices."""

    def __init__(self, batch: Batch, node: GraphNode) -> None:
        super().__init__(batch, node)
        self._layout = layout = node.argument("layout") or _AXES
        if len(set(layout)) < len(layout) or set(layout) - set(_AXES):
            raise ArgumentValueError(f"argument 'layout' must name x, y and z at most once each, not {layout!r}")
        flips = np.empty((batch.size, len(layout)), np.bool_)
        centers = np.empty(flips.shape)
        for column, axis in enumerate(layout):
            flips[:, column] = self._scalars(f"flip_{axis}")
            centers[:, column] = self._scalars(f"center_{axis}")
        self._matrices = np.where(flips, _MIRRORED, _KEPT)[:, None] * _DIAGONALS[: len(layout), : len(layout)]
        self._offsets = np.where(flips, 2 * centers, 0).astype(np.float32)

    def for_samples(self, samples: slice, shape: tuple[int, ...]) -> LinearMap:
        count = shape[-1] if shape else 0
        if len(shape) != 2 or count > len(self._layout):
            raise ArgumentValueError(
                f"points in rows of at most {len(self._layout)} coordinates are required, but the sample has shape "
                f"{shape}"
            )
        return LinearMap(self._matrices[samples, :count, :count], self._offsets[samples, :count])


@implements(COORD_FLIP, "cpu")
class CoordinateFlipCpu(LinearMapsCpu):
    """Flips points by linear maps."""

    maps = _PointFlips


@implements(COORD_FLIP, "gpu")
class CoordinateFlipGpu(LinearMapsGpu):
    """Flips points by linear maps."""

    maps = _PointFlips
