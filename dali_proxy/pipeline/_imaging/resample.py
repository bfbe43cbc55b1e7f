"""Resizing of one image or volume with DALI's semantics.

A result is a sum of products along one axis after the other, in float32 (see `filters`). The compiled loops (see
`native`) compute all axes in one pass over memory, and images of bytes in fixed point.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._arrays import Array
from dali_proxy.pipeline._imaging.convert import convert
from dali_proxy.pipeline._imaging.filters import filter_name, nearest_indices, plan_taps
from dali_proxy.pipeline._imaging.native import LOOP_DTYPES, compiled, is_for_loops

TRIANGLES = ("linear", "triangular")
"""The two names of the filter for which the compiled loops compute the weights themselves."""

MOST_PIXELS = 1 << 20
"""Limit of the coordinates of a region, in pixels, in these compiled loops."""

# Breaks ties like DALI, which rounds half up, although sums of float weights may be slightly below them.
_ROUND_BYTES = np.float32(1e-4)


class _Axis(NamedTuple):
    """The arguments of `filters.plan_taps` for an axis."""

    extent: int
    size: int
    low: float
    high: float
    name: str


def resize(
    image: Array,
    size: Sequence[int],
    *,
    region: Sequence[float] | None = None,
    interp: Any = "linear",
    min_filter: Any = None,
    mag_filter: Any = None,
    antialias: bool = True,
    dtype: npt.DTypeLike | None = None,
    out: Array | None = None,
    planar: bool = False,
) -> Array:
    """Resize an image or a volume, or a region of it.

    The filter also reads pixels outside the region, if the image has them. Beyond the image, it repeats edge pixels.
    Intermediate results are float32; the final result is rounded half away from zero and clamped once.

    Args:
        image: HW, HWC, DHW or DHWC, or with more trailing axes; of an integer or float dtype.
        size: (height, width) or (depth, height, width) of the result; all at least 1.
        region: (y0, x0, y1, x1), or (z0, y0, x0, z1, y1, x1), in pixels, where 0 is the outer edge of the first pixel;
            may be fractional or reach outside. A reversed region flips. None for the whole image.
        interp: nearest, linear, cubic, lanczos3, triangular or gaussian, or DALI's ``INTERP_*``.
        min_filter: filter for axes that shrink, instead of `interp`.
        mag_filter: filter for axes that grow or keep their size, instead of `interp`.
        antialias: whether to widen the filters of axes that shrink, so that every input pixel counts. ``linear`` is
            then a triangle. ``nearest`` ignores it.
        dtype: dtype of the result; None for the image's dtype.
        out: output array, of shape ``size`` and the trailing axes, and dtype `dtype`.
        planar: whether a new array may store one channel after the other, which is the order in which they are
            computed. `crop_mirror_normalize` then doesn't need to separate them. It has no effect with `out`.

    Returns:
        `out` or a new array.

    Raises:
        ValueError: the image or the size is empty, or a filter is unknown.

    Example:
        >>> resize(np.array([[0, 100]], np.uint8), (1, 4))
        array([[  0,  25,  75, 100]], dtype=uint8)
    """
    size = tuple(size)
    ndim = len(size)
    spatial = image.shape[:ndim]
    if len(spatial) < ndim or min(image.shape) < 1 or min(size) < 1:
        raise ValueError(f"can't resize an image of shape {image.shape} to {size}")
    ends = (*(0,) * ndim, *spatial) if region is None else region
    lower = filter_name(interp if min_filter is None else min_filter)
    raiser = filter_name(interp if mag_filter is None else mag_filter)
    axes = [
        _Axis(extent, to, float(low), float(high), lower if abs(high - low) > to else raiser)
        for extent, to, low, high in zip(spatial, size, ends[:ndim], ends[ndim:], strict=True)
    ]
    target = np.dtype(image.dtype if dtype is None else dtype)
    pixels = image if image.ndim == ndim + 1 else image.reshape(*spatial, -1)
    nearest = [axis.name == "nearest" for axis in axes]
    simple = _is_for_opencv(pixels, target, axes)
    fixed = not simple and not any(nearest) and _is_for_fixed_point(pixels, target)
    if out is None and planar and fixed and image.ndim == 3:
        out = np.empty((image.shape[2], *size), target).transpose(1, 2, 0)
    elif out is None:
        out = np.empty((*size, *image.shape[ndim:]), target)
    result = out if image.ndim == ndim + 1 else out.reshape(*size, -1)
    if fixed and result.ndim == 3:
        _resize_bytes(pixels, axes, antialias, result)
        return out
    packed = result if result.flags.c_contiguous else np.empty(result.shape, target)
    if simple:
        # OpenCV would refuse the strides that the axis of a single channel may have.
        room = packed[..., 0] if packed.shape[-1] == 1 else packed
        cv2.resize(pixels, size[::-1], dst=room, interpolation=cv2.INTER_LINEAR)
    elif all(nearest):
        _take(pixels, axes, packed)
    else:
        _resample(pixels, axes, antialias, packed)
    if packed is not result:
        result[...] = packed
    return out


def _resize_bytes(pixels: Array, axes: Sequence[_Axis], antialias: bool, result: Array) -> None:
    """Resample in fixed point, into memory of any strides."""
    assert compiled is not None
    rows, columns = axes
    if pixels.strides[1:] != (pixels.shape[2], 1):
        pixels = np.ascontiguousarray(pixels)
    ends = rows.low, columns.low, rows.high, columns.high
    if rows.name in TRIANGLES and columns.name in TRIANGLES and max(map(abs, ends)) < MOST_PIXELS:
        compiled.resample_linear(pixels, result, *ends, antialias)
        return
    top, bottom, *row_taps = plan_taps(*rows, antialias)
    left, right, *column_taps = plan_taps(*columns, antialias)
    compiled.resample(pixels[top:bottom, left:right], result, *row_taps, *column_taps)


def _take(pixels: Array, axes: Sequence[_Axis], out: Array) -> None:
    """Copy the nearest pixels."""
    indices = [nearest_indices(*axis[:4], axis is not axes[-1]) for axis in axes]
    if compiled is None or pixels.dtype != out.dtype:
        convert(pixels[np.ix_(*indices)], out.dtype, out=out)
        return
    source, target = (_slices(each).view(np.uint8) for each in (np.ascontiguousarray(pixels), out))
    if len(axes) == 2:
        indices.insert(0, np.zeros(1, np.int32))
    compiled.take(source, target, *(index.astype(np.int32) for index in indices))


def _slices(pixels: Array) -> Array:
    """Return a volume: an image is one slice."""
    return pixels if pixels.ndim == 4 else pixels[None]


def _resample(pixels: Array, axes: Sequence[_Axis], antialias: bool, out: Array) -> None:
    """Compute sums of products in float32."""
    window, taps = [], []
    for axis in axes:
        first, last, *weights = _plan(axis, antialias, axis is not axes[-1])
        window.append(slice(first, last))
        taps.append(weights)
    source = pixels[tuple(window)]
    if compiled is None:
        _sum_products(source, taps, out)
        return
    # Pixels must be adjacent.
    if not is_for_loops(source) or pixels.strides[-2:] != (pixels.shape[-1] * pixels.itemsize, pixels.itemsize):
        source = np.require(source, source.dtype if source.dtype in LOOP_DTYPES else np.float32, ["C", "A"])
    made = out if is_for_loops(out) else np.empty(out.shape, np.float32)
    slices = taps[0] if len(axes) == 3 else (b"", b"")
    rows, columns = taps[-2:]
    compiled.resample_floats(_slices(source), _slices(made), *slices, *rows, *columns)
    if made is not out:
        convert(made, out.dtype, out=out)


def _plan(axis: _Axis, antialias: bool, accumulate: bool) -> tuple[int, int, Array, Array]:
    """Return `plan_taps`; the nearest pixel is a single one, whose weight is 1."""
    if axis.name != "nearest":
        return plan_taps(*axis, antialias)
    indices = nearest_indices(*axis[:4], accumulate).astype(np.int32)
    return 0, axis.extent, indices, np.ones((axis.size, 1), np.float32)


def _sum_products(source: Array, taps: Sequence[Sequence[Array]], out: Array) -> None:
    """Compute the same as the compiled loop, one axis after the other."""
    work = source.astype(np.float32)
    for number, (first, weights) in enumerate(taps):
        along = (-1, *(1,) * (work.ndim - 1 - number))
        work = sum(
            (tap.reshape(along) * work.take(first + step, number) for step, tap in enumerate(weights.T)),
            start=np.zeros(1, np.float32),
        )
    convert(work + _ROUND_BYTES if out.dtype == np.uint8 else work, out.dtype, out=out)


def _is_for_fixed_point(pixels: Array, target: np.dtype[Any]) -> bool:
    """Return whether the compiled loop in fixed point supports an image: uint8 of at most 4 channels."""
    is_bytes = pixels.dtype == target == np.uint8
    return compiled is not None and bool(is_bytes and pixels.ndim == 3 and pixels.shape[2] <= 4)


def _is_for_opencv(pixels: Array, target: np.dtype[Any], axes: Sequence[_Axis]) -> bool:
    """Return whether to use OpenCV's bilinear resize: for images that keep their size, and to enlarge a single channel.

    In these cases, its results differ by at most 1, and it takes a third of the time. Results must not depend on the
    memory layout.
    """
    if not pixels.dtype == target == np.uint8 or pixels.ndim != 3:
        return False
    for extent, size, low, high, name in axes:
        if size < extent or (low, high) != (0, extent) or name not in TRIANGLES:
            return False
    keeps_size = all(axis.extent == axis.size for axis in axes)
    return pixels.shape[2] == 1 or (keeps_size and pixels.shape[2] <= 4)
