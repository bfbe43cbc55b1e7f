"""Bounds of slices, for whole batches: the windows between them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dali_proxy.pipeline._imaging.native import compiled
from dali_proxy.pipeline.tensors.cpu import Array


class SliceBounds(NamedTuple):
    """Begins and ends of the slices of a batch, along the axes that are sliced.

    Attributes:
        begin: begin of each slice in elements, (N, axes) or (N, 1); empty if slices begin with the axis.
        end: end of each slice, likewise; empty if slices end with the axis.
        relative: whether begins and ends are fractions of the extent of the axis.
        from_start: whether ends count from the begins.
        exact: whether fractions keep their precision. Otherwise each bound has the precision of float32, as in DALI.
    """

    begin: Array
    end: Array
    relative: tuple[bool, bool]
    from_start: bool
    exact: bool

    def locate(self, shapes: Array, axes: tuple[int, ...]) -> tuple[Array, Array] | None:
        """Return starts and extents of the windows of samples of shapes (N, ndim), likewise; None if one is invalid."""
        if compiled is None or not len(shapes):
            return self._locate_columns(shapes, axes)
        shapes = np.ascontiguousarray(shapes)
        windows = np.empty(shapes.shape, np.int64), np.empty(shapes.shape, np.int64)
        columns = np.ascontiguousarray(self.begin, np.float64), np.ascontiguousarray(self.end, np.float64)
        flags = (*self.relative, self.from_start, self.exact)
        return windows if compiled.locate_slices(shapes, len(shapes), axes, *columns, flags, *windows) else None

    def _locate_columns(self, shapes: Array, axes: tuple[int, ...]) -> tuple[Array, Array] | None:
        sizes = shapes[:, axes].astype(np.float64)
        low, high = self._between(sizes)
        if not max(np.abs(low).max(initial=0.0), np.abs(high).max(initial=0.0)) < 1 << 62:  # also for NaN
            return None
        first, last = _rounded(low), _rounded(high)
        if (last < first).any():
            return None
        starts, extents = np.zeros(shapes.shape, np.int64), shapes.copy()
        starts[:, axes], extents[:, axes] = first, last - first
        return starts, extents

    def _between(self, sizes: Array) -> tuple[Array, Array]:
        """Return begin and end of all slices in elements, for axes of these extents."""
        begin = self._scaled(self.begin, sizes, self.relative[0]) if self.begin.size else np.zeros(sizes.shape)
        low = self._rounded(begin, self.relative[0])
        if not self.end.size:
            return low, sizes
        end = self._scaled(self.end, sizes, self.relative[1])
        high = self._rounded(end, self.relative[1])
        if not self.from_start:
            return low, high
        if self.exact or not all(self.relative):
            return low, low + high
        # DALI rounds the product for each bound to float32, but not the products whose sum is the end.
        return low, np.where(high >= 0, np.maximum(low, begin + end), low + high)

    def _scaled(self, values: Array, sizes: Array, relative: bool) -> Array:
        values = values.astype(np.float64)
        return values * sizes if relative else np.broadcast_to(values, sizes.shape)

    def _rounded(self, values: Array, relative: bool) -> Array:
        return values.astype(np.float32).astype(np.float64) if relative and not self.exact else values


def _rounded(values: Array) -> Array:
    """Round to the nearest integers, halves away from zero."""
    return (values + np.copysign(0.5, values)).astype(np.int64)  # which drops the fraction
