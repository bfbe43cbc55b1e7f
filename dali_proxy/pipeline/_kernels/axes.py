"""Mapping from the axes of resized images to their sources: struct Axis of filters.cuh, for whole batches."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._arrays import Array, Bools, Float64s, Int64s
from dali_proxy.pipeline._imaging.native import compiled
from dali_proxy.pipeline._kernels.evaluate import LINES, SHARED_BYTES, TILE_WIDTH
from dali_proxy.pipeline._kernels.rows import as_bytes, zeros
from dali_proxy.pipeline.errors import PipelineError
from dali_proxy.pipeline.types import DALIInterpType

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


def whole_image(shapes: Int64s) -> Float64s:
    """Return the regions (y0, x0, y1, x1) that cover images of shapes (N, 3), HWC."""
    regions = np.zeros((len(shapes), 4))
    regions[:, 2:] = shapes[:, :2]
    return regions


def axis_tables(
    low: Float64s,
    high: Float64s,
    extents: Int64s,
    sizes: Int64s,
    min_filter: npt.ArrayLike,
    mag_filter: npt.ArrayLike,
    antialias: bool,
) -> Array:
    """Return the tables of the axes of a batch, (axes, N): the outputs of each axis cover the source from low to high.

    Positions of nearest pixels are accumulated along all axes but the last one, the axis of columns.

    Args:
        low: (N, axes) in source pixels; a value greater than that of `high` flips the axis.
        high: (N, axes) in source pixels.
        extents: (N, axes) pixels of the source.
        sizes: (N, axes) pixels of the resized image.
        min_filter: `DALIInterpType` for samples that shrink; one for all, or (N,).
        mag_filter: `DALIInterpType` for samples that grow or keep their size; one for all, or (N,).
        antialias: whether to widen filters by the scale where the image shrinks.

    Raises:
        PipelineError: for an unknown filter, an empty source or output.
    """
    count, axes = sizes.shape
    smaller, larger = _per_sample(min_filter, count), _per_sample(mag_filter, count)
    rows = zeros(axes * count, AXIS)
    table = rows.reshape(axes, count)
    if compiled is not None:
        given = [np.ascontiguousarray(each) for each in (low, high, extents, sizes)]
        if compiled.map_axes(*given, smaller, larger, _CODE, _RADIUS, antialias, as_bytes(rows)):
            return table
    if (extents <= 0).any() or (sizes <= 0).any():
        index, axis = np.argwhere((extents <= 0) | (sizes <= 0))[0].tolist()
        raise PipelineError(f"sample {index}: can't resize {extents[index, axis]} pixels to {sizes[index, axis]}")
    scale = (high - low) / sizes
    shrinks = np.abs(scale) > 1
    chosen = np.where(shrinks, smaller[:, None], larger[:, None])
    if ((chosen < 0) | (chosen >= len(_CODE))).any():
        raise PipelineError(f"unknown interpolation in {np.unique(chosen).tolist()}")
    width = np.where(shrinks & antialias, np.abs(scale), 1.0)
    base = np.minimum(np.maximum(np.floor(np.minimum(low, high)), 0), extents)
    columns = table.T
    columns["origin"], columns["scale"], columns["extent"] = low, scale, extents
    columns["filter"], columns["radius"], columns["shrink"] = _CODE[chosen], _RADIUS[chosen] * width, 1 / width
    columns["base"], columns["adds"] = base, np.arange(axes) < axes - 1
    return table


def _per_sample(values: npt.ArrayLike, count: int) -> Int64s:
    """Return one number for each sample."""
    numbers = np.empty(count, np.int64)
    numbers[:] = values
    return numbers


def touched(axis: Array, out: Int64s) -> tuple[Int64s, Int64s]:
    """Return the source pixels [low, high) that outputs 0 to `out` read, clamped to the image."""
    ends = np.stack([axis["origin"] + 0.5 * axis["scale"], axis["origin"] + (out - 0.5) * axis["scale"]])
    low = np.floor(ends.min(axis=0) - axis["radius"] - 0.6).astype(np.int64)
    high = np.ceil(ends.max(axis=0) + axis["radius"] + 0.6).astype(np.int64)
    low = np.clip(low, 0, axis["extent"] - 1)
    return low, np.clip(high, low + 1, axis["extent"])


def keeps_rows(y: Array, x: Array, channels: int) -> Bools:
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
    return (2 * y["radius"] > scale) & (nbytes <= SHARED_BYTES)
