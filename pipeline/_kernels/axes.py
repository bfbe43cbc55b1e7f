"""Mapping from the axes of resized images to their sources: struct Axis of filters.cuh, for whole batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline._kernels.evaluate import LINES, SHARED_BYTES, TILE_WIDTH
from pipeline._kernels.rows import zeros
from pipeline.errors import PipelineError
from pipeline.types import DALIInterpType

__all__ = ["AXIS", "IS_SMOOTH", "axis_table", "keeps_rows", "touched", "whole_image"]

#: struct Axis of filters.cuh.
AXIS = np.dtype(
    [
        *[("origin", "f8"), ("scale", "f8"), ("radius", "f4"), ("shrink", "f4"), ("filter", "i4"), ("extent", "i4")],
        *[("base", "i4"), ("adds", "i4")],
    ],
    align=True,
)

# By DALIInterpType: the code in filters.cuh and half the filter's width in pixels.
_FILTERS = {
    DALIInterpType.INTERP_NN: (0, 0.0),
    DALIInterpType.INTERP_LINEAR: (1, 1.0),
    DALIInterpType.INTERP_CUBIC: (2, 2.0),
    DALIInterpType.INTERP_LANCZOS3: (3, 3.0),
    DALIInterpType.INTERP_TRIANGULAR: (4, 1.0),
    DALIInterpType.INTERP_GAUSSIAN: (5, 1.0),
}
#: Sizes of struct Rectangle of shared_pixels.cuh, and Span of resize.cuh.
_RECTANGLE, _SPAN = 16, 12
#: By the code of a filter: whether its weights are a curve.
IS_SMOOTH = np.isin(np.arange(len(_FILTERS)), (2, 3, 5))
_CODE = np.array([_FILTERS[DALIInterpType(value)][0] for value in range(len(_FILTERS))], np.int32)
_RADIUS = np.array([_FILTERS[DALIInterpType(value)][1] for value in range(len(_FILTERS))], np.float64)


def whole_image(shapes: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return the regions (y0, x0, y1, x1) that cover images of shapes (N, 3), HWC."""
    regions = np.zeros((len(shapes), 4))
    regions[:, 2:] = shapes[:, :2]
    return regions


def axis_table(
    begin: npt.NDArray[np.float64],
    end: npt.NDArray[np.float64],
    extent: npt.NDArray[np.int64],
    out: npt.NDArray[np.int64],
    min_filter: npt.ArrayLike,
    mag_filter: npt.ArrayLike,
    antialias: bool,
    *,
    rows: bool | npt.NDArray[np.bool_],
) -> npt.NDArray[Any]:
    """Return the table of one axis of a batch: outputs 0 to `out` cover the source from `begin` to `end`.

    Args:
        begin: (N,) in source pixels; a value greater than `end` flips the axis.
        end: (N,) in source pixels.
        extent: (N,) pixels of the source.
        out: (N,) pixels of the resized image.
        min_filter: `DALIInterpType` for samples that shrink; one for all, or (N,).
        mag_filter: `DALIInterpType` for samples that grow or keep their size; one for all, or (N,).
        antialias: whether to widen filters by the scale where the image shrinks.
        rows: whether this is the axis of rows or slices; one for all, or (N,). There, positions of nearest
            pixels are accumulated.

    Raises:
        PipelineError: for an unknown filter, an empty source or output.
    """
    if (extent <= 0).any() or (out <= 0).any():
        index = int(np.argmax((extent <= 0) | (out <= 0)))
        raise PipelineError(f"sample {index}: can't resize {extent[index]} pixels to {out[index]}")
    table = zeros(len(out), AXIS)
    scale = (end - begin) / out
    shrinks = np.abs(scale) > 1
    chosen = np.where(shrinks, np.asarray(min_filter, np.int64), np.asarray(mag_filter, np.int64))
    if ((chosen < 0) | (chosen >= len(_CODE))).any():
        raise PipelineError(f"unknown interpolation in {np.unique(chosen).tolist()}")
    width = np.where(shrinks & antialias, np.abs(scale), 1.0)
    table["origin"], table["scale"], table["extent"] = begin, scale, extent
    table["filter"] = _CODE[chosen]
    table["radius"], table["shrink"] = _RADIUS[chosen] * width, 1 / width
    table["base"], table["adds"] = np.minimum(np.maximum(np.floor(np.minimum(begin, end)), 0), extent), rows
    return table


def touched(axis: npt.NDArray[Any], out: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the source pixels [low, high) that outputs 0 to `out` read, clamped to the image."""
    ends = np.stack([axis["origin"] + 0.5 * axis["scale"], axis["origin"] + (out - 0.5) * axis["scale"]])
    low = np.floor(ends.min(axis=0) - axis["radius"] - 0.6).astype(np.int64)
    high = np.ceil(ends.max(axis=0) + axis["radius"] + 0.6).astype(np.int64)
    low = np.clip(low, 0, axis["extent"] - 1)
    return low, np.clip(high, low + 1, axis["extent"])


def keeps_rows(y: npt.NDArray[Any], x: npt.NDArray[Any], channels: int) -> npt.NDArray[np.bool_]:
    """Return whether a block keeps rows of the source in shared memory, filtered along x, to resize images.

    It computes the rows under `LINES` rows of the result, at least, as resize.cuh describes.

    Args:
        y: tables of the rows, (N,).
        x: tables of the columns, (N,).
        channels: number of channels.
    """
    number, scale = np.dtype(np.float32).itemsize, np.abs(y["scale"])
    rows = LINES * scale + 2 * y["radius"] + 2
    nbytes = 2 * _RECTANGLE + rows * TILE_WIDTH * channels * number
    for axis, positions in ((y, LINES), (x, TILE_WIDTH)):
        nbytes += positions * (_SPAN + number * (2 * axis["radius"] + 2))
    kept: npt.NDArray[np.bool_] = (2 * y["radius"] > scale) & (nbytes <= SHARED_BYTES)
    return kept
