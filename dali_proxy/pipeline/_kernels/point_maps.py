"""Point maps of `PixelExpression.warp`: positions in the source as functions of positions in the output."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._arrays import Array
from dali_proxy.pipeline._cuda.launch import ADDRESS
from dali_proxy.pipeline._kernels.samples import Samples


@dataclass(frozen=True, eq=False)
class PointMap:
    """A point map for each sample of a batch.

    Attributes:
        kind: C++ type in point_maps.cuh.
        rows: parameters of the samples, (N,): the members of the C++ struct.
        owners: objects that keep memory alive that the parameters refer to.
    """

    kind: str
    rows: Array
    owners: tuple[Any, ...] = ()


def affine(matrices: Array) -> PointMap:
    """Return maps by matrices (N, 2, 3) from the output to the source; rows and columns are x, y."""
    return _fill("Affine", len(matrices), matrix=("f8", (2, 3), matrices))


def perspective(matrices: Array, grid: int) -> PointMap:
    """Return maps by matrices (N, 3, 3), in coordinates whose integers are the centers of pixels.

    Positions are rounded to 1 / `grid` pixels; with 0, they are exact.
    """
    return _fill("Perspective", len(matrices), matrix=("f8", (3, 3), matrices), grid=("f8", (), grid))


def waves(moves: Array, amplitude: npt.ArrayLike, frequency: npt.ArrayLike, phase: npt.ArrayLike) -> PointMap:
    """Return maps by waves, whose parameters are pairs for y and x; samples without `moves`, (N,), stay the same."""
    pairs: dict[str, Any] = {"amplitude": amplitude, "frequency": frequency, "phase": phase}
    fields = {name: ("f8", (2,), values) for name, values in pairs.items()}
    return _fill("Waves", len(moves), **fields, moves=("i4", (), moves))


def sphere(moves: Array, extents: Array) -> PointMap:
    """Return maps of images of height and width (N, 2) to spheres; samples without `moves`, (N,), stay the same."""
    radius = np.maximum(1, extents.max(axis=1) // 2)
    fields = {"center": ("f8", (2,), extents / 2), "radius": ("f8", (), radius)}
    return _fill("Sphere", len(moves), **fields, moves=("i4", (), moves))


def shifts(moves: Array, seeds: Array, extent: float, widths: Array) -> PointMap:
    """Return maps that shift each pixel of images of `widths`, (N,), at random, by a range `extent` in pixels."""
    whole = {"moves": ("i4", (), moves), "width": ("i4", (), widths)}
    return _fill("Shifts", len(moves), seed=("u8", (), seeds), range=("f8", (), extent), **whole)


def stored(y: Samples, x: Samples, shift: float, grid: int, *owners: Any) -> PointMap:
    """Return maps by positions in memory, to which `shift` is added.

    Args:
        y: float32 samples (frames or 1, height, width).
        x: the same for positions along x.
        shift: added to positions.
        grid: positions of centers are rounded to 1 / `grid` pixels; 1 for exact positions.
        owners: objects that keep the memory alive.
    """
    steps = {
        f"{name}_strides": ("i8", (3,), np.where(each.shapes > 1, each.strides, 0))
        for name, each in (("y", y), ("x", x))
    }
    pointers = {"y": (ADDRESS, (), y.pointers), "x": (ADDRESS, (), x.pointers)}
    points = _fill("Stored", len(y), **pointers, **steps, shift=("f8", (), shift), grid=("f8", (), grid))
    return replace(points, owners=owners)


def _fill(kind: str, count: int, **fields: tuple[npt.DTypeLike, tuple[int, ...], Any]) -> PointMap:
    rows = np.zeros(count, _struct(tuple([(name, code, shape) for name, (code, shape, _) in fields.items()])))
    for name, (_, _, values) in fields.items():
        rows[name] = values
    return PointMap(kind, rows)


@cache
def _struct(members: tuple[tuple[str, npt.DTypeLike, tuple[int, ...]], ...]) -> np.dtype[Any]:
    return np.dtype(list(members), align=True)
