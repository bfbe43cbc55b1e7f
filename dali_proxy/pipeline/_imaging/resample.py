"""Resizing of one image with DALI's semantics.

All filters, regions and dtypes use the same method: planes of float32, then one strided matrix product per axis (see
`filters`). For uint8 images, the compiled loop (see `native`), if it exists, takes half of the time.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._imaging.convert import convert
from dali_proxy.pipeline._imaging.filters import AxisPlan, filter_name, nearest_indices, plan_axis, plan_taps
from dali_proxy.pipeline._imaging.native import compiled
from dali_proxy.pipeline._imaging.scratch import scratch

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]

TRIANGLES = ("linear", "triangular")
"""The two names of the filter for which the compiled loops compute the weights themselves."""

MOST_PIXELS = 1 << 20
"""Limit of the coordinates of a region, in pixels, in these compiled loops."""

# NumPy's OpenBLAS starts additional threads for products with more multiply-adds. Work must stay on the executor's
# threads.
_SINGLE_THREAD_PRODUCT = 1 << 18
# Outputs per block. For the horizontal axis, this is the number of columns of each matrix product, which is fastest for
# multiples of the vector width.
_ROW_BLOCKS = (6, 8, 12, 16, 24, 32)
_COLUMN_BLOCKS = (16, 32)
# float32 input of one pass over a strip of rows, in elements: about the size of the caches.
_STRIP = 1 << 19


def resize(
    image: Array,
    size: tuple[int, int],
    *,
    region: tuple[float, float, float, float] | None = None,
    interp: Any = "linear",
    min_filter: Any = None,
    mag_filter: Any = None,
    antialias: bool = True,
    dtype: npt.DTypeLike | None = None,
    out: Array | None = None,
    planar: bool = False,
) -> Array:
    """Resize an image or a region of it.

    The filter also reads pixels outside the region, if the image has them. Beyond the image, it repeats edge pixels.
    Intermediate results are float32; the final result is rounded half away from zero and clamped once.

    Args:
        image: HW or HWC, or with more trailing axes; of an integer or float dtype.
        size: (height, width) of the result; both at least 1.
        region: (y0, x0, y1, x1) in pixels, where 0 is the outer edge of the first pixel; may be fractional or reach
            outside. A reversed region flips. None for the whole image.
        interp: nearest, linear, cubic, lanczos3, triangular or gaussian, or DALI's ``INTERP_*``.
        min_filter: filter for axes that shrink, instead of `interp`.
        mag_filter: filter for axes that grow or keep their size, instead of `interp`.
        antialias: whether to widen the filters of axes that shrink, so that every input pixel counts. ``linear`` is
            then a triangle. ``nearest`` ignores it.
        dtype: dtype of the result; None for the image's dtype.
        out: output array, of shape ``size + image.shape[2:]`` and dtype `dtype`.
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
    if image.ndim < 2 or min(image.shape) < 1 or min(size) < 1:
        raise ValueError(f"can't resize an image of shape {image.shape} to {tuple(size)}")
    height, width = image.shape[:2]
    y0, x0, y1, x1 = (0, 0, height, width) if region is None else region
    lower = filter_name(interp if min_filter is None else min_filter)
    raiser = filter_name(interp if mag_filter is None else mag_filter)
    rows = (height, size[0], float(y0), float(y1), lower if abs(y1 - y0) > size[0] else raiser)
    columns = (width, size[1], float(x0), float(x1), lower if abs(x1 - x0) > size[1] else raiser)

    target = np.dtype(image.dtype if dtype is None else dtype)
    pixels = image if image.ndim == 3 else image.reshape(height, width, -1)
    simple = target == np.uint8 and _is_for_opencv(pixels, rows, columns)
    if out is None and planar and not simple and target == np.uint8 and image.ndim == 3:
        out = np.empty((image.shape[2], *size), target).transpose(1, 2, 0)
    elif out is None:
        out = np.empty((*size, *image.shape[2:]), target)
    result = out if image.ndim == 3 else out.reshape(*size, -1)
    if simple:
        # OpenCV writes only packed pixels. A result with one channel is packed, even if it was made as planes.
        packed = result.flags.c_contiguous and result.strides[1:] == (result.shape[2], 1)
        resized = cv2.resize(pixels, size[::-1], dst=result if packed else None, interpolation=cv2.INTER_LINEAR)
        if not packed:
            result[...] = resized.reshape(result.shape)
        return out

    if compiled is not None and _is_for_loop(pixels, result) and "nearest" not in (rows[4], columns[4]):
        if pixels.strides[1:] != (pixels.shape[2], 1):
            pixels = np.ascontiguousarray(pixels)
        if rows[4] in TRIANGLES and columns[4] in TRIANGLES and max(map(abs, (y0, x0, y1, x1))) < MOST_PIXELS:
            compiled.resample_linear(pixels, result, y0, x0, y1, x1, antialias)
            return out
        top, bottom, *row_taps = plan_taps(*rows, antialias)
        left, right, *column_taps = plan_taps(*columns, antialias)
        compiled.resample(pixels[top:bottom, left:right], result, *row_taps, *column_taps)
        return out

    # Along an axis with the filter "nearest", pixels are only copied. If both axes have it, nothing is computed.
    is_packed = pixels.strides[1:] == (pixels.shape[2], 1) and result.strides[1:] == (pixels.shape[2], 1)
    if compiled is not None and is_packed and rows[4] == columns[4] == "nearest" and _is_for_loop(pixels, result):
        indices = nearest_indices(*rows[:4], True), nearest_indices(*columns[:4], False)
        compiled.take(pixels, result, *(index.astype(np.int32) for index in indices))
        return out
    if rows[4] == "nearest":
        pixels = np.take(pixels, nearest_indices(*rows[:4], True), axis=0)
    if columns[4] == "nearest":
        pixels = np.take(pixels, nearest_indices(*columns[:4], False), axis=1)
    if rows[4] == columns[4] == "nearest":
        convert(pixels, target, out=result)
        return out
    top, bottom, vertical = 0, size[0], None
    if rows[4] != "nearest":
        top, bottom, vertical = plan_axis(*rows, antialias, _ROW_BLOCKS)
    left, right, horizontal = 0, size[1], None
    if columns[4] != "nearest":
        left, right, horizontal = plan_axis(*columns, antialias, _COLUMN_BLOCKS)
    _store(_resample(pixels[top:bottom, left:right], vertical, horizontal), result)
    return out


def _is_for_loop(pixels: Array, result: Array) -> bool:
    """Return whether the compiled loop supports the arrays once packed: uint8 of at most 4 channels."""
    return bool(pixels.dtype == result.dtype == np.uint8 and pixels.shape[2] <= 4 and result.ndim == 3)


def _is_for_opencv(pixels: Array, rows: Any, columns: Any) -> bool:
    """Return whether to use OpenCV's bilinear resize: for images that keep their size, and to enlarge a single channel.

    In these cases, its results differ by at most 1, and it takes a third of the time. Results must not depend on the
    memory layout.
    """
    for extent, size, low, high, name in (rows, columns):
        if size < extent or (low, high) != (0, extent) or name not in TRIANGLES:
            return False
    keeps_size = rows[0] == rows[1] and columns[0] == columns[1]
    return bool(pixels.dtype == np.uint8 and (pixels.shape[2] == 1 or (keeps_size and pixels.shape[2] <= 4)))


def _resample(pixels: Array, vertical: AxisPlan | None, horizontal: AxisPlan | None) -> Floats:
    """Resample both axes, and return scratch memory of shape (channels, at least height, at least width)."""
    height, width, channels = pixels.shape
    before, after = (horizontal.before, horizontal.after) if horizontal else (0, 0)
    padded = before + width + after
    if vertical is None:
        planes = _planes(pixels, (0, 0), (before, after))
    else:
        planes = scratch("rows", (channels, vertical.blocks * vertical.rows, padded), np.float32)
        # Process one strip of blocks at a time, and convert only the input rows that it needs, just before their use.
        strip = max(1, (_STRIP // (channels * padded) - vertical.taps) // max(1, abs(vertical.step)))
        for block in range(0, vertical.blocks, strip):
            blocks = min(strip, vertical.blocks - block)
            ends = [vertical.start + (block + extra) * vertical.step for extra in (0, blocks - 1)]
            first, last = min(ends), max(ends) + vertical.taps
            inside = pixels[max(first, 0) : min(last, height)]
            source = _planes(inside, (max(-first, 0), max(last - height, 0)), (before, after))
            _rows_product(source, ends[0] - first, block, blocks, vertical, planes)
    return planes if horizontal is None else _columns_product(planes, before, horizontal)


def _planes(pixels: Array, rows: tuple[int, int], columns: tuple[int, int]) -> Floats:
    """Convert HWC to float32 planes, with margins of `rows` and `columns` zeros."""
    height, width, channels = pixels.shape
    shape = (channels, rows[0] + height + rows[1], columns[0] + width + columns[1])
    planes = scratch("planes", shape, np.float32)
    for axis, (before, after) in ((1, rows), (2, columns)):
        # Every call releases the GIL, and another thread may take it, so skip unnecessary calls.
        if before:
            planes.swapaxes(0, axis)[:before] = 0
        if after:
            planes.swapaxes(0, axis)[-after:] = 0
    source = pixels.transpose(2, 0, 1)
    if pixels.dtype == np.uint8 and 1 < channels <= 4:
        # OpenCV separates channels five times as fast as a strided copy.
        source = scratch("bytes", (channels, height, width), np.uint8)
        cv2.split(pixels, list(source))
    np.copyto(planes[:, rows[0] : rows[0] + height, columns[0] : columns[0] + width], source, casting="unsafe")
    return planes


def _rows_product(source: Floats, offset: int, block: int, blocks: int, plan: AxisPlan, out: Floats) -> None:
    channels, _, width = source.shape
    plane, row, item = source.strides
    windows = np.ndarray(
        (channels, blocks, plan.taps, width),
        source.dtype,
        source,
        offset * row,
        (plane, plan.step * row, row, item),
    )
    target = out[:, block * plan.rows : (block + blocks) * plan.rows].reshape(channels, blocks, plan.rows, width)
    slab = max(16, _SINGLE_THREAD_PRODUCT // (plan.rows * plan.taps))
    weights = plan.weights[block : block + blocks]
    for x in range(0, width, slab):
        chunk = slice(x, x + slab)
        np.matmul(weights, windows[..., chunk], out=target[..., chunk])


def _columns_product(source: Floats, before: int, plan: AxisPlan) -> Floats:
    channels, height, _ = source.shape
    out = scratch("columns", (channels, height, plan.blocks * plan.rows), np.float32)
    plane, row, item = source.strides
    windows = np.ndarray(
        (channels, plan.blocks, height, plan.taps),
        source.dtype,
        source,
        (plan.start + before) * item,
        (plane, plan.step * item, row, item),
    )
    plane, row, item = out.strides
    target = np.ndarray(
        (channels, plan.blocks, height, plan.rows), out.dtype, out, 0, (plane, plan.rows * item, row, item)
    )
    slab = max(16, _SINGLE_THREAD_PRODUCT // (plan.rows * plan.taps))
    for y in range(0, height, slab):
        chunk = slice(y, y + slab)
        np.matmul(windows[:, :, chunk], plan.transposed, out=target[:, :, chunk])
    return out


def _round(planes: Floats, out: Array) -> Array:
    flat = planes.reshape(-1, planes.shape[2])  # all planes at once
    # OpenCV rounds half to even, DALI rounds half up; the small constant breaks ties without affecting other values.
    cv2.addWeighted(flat, 1.0, flat, 0.0, 1e-4, dst=out.reshape(flat.shape), dtype=cv2.CV_8U)
    return out


def _store(planes: Floats, out: Array) -> None:
    """Write planes, of at least the height and width of `out`, to HWC; round and clamp for integer dtypes."""
    channels = planes.shape[0]
    chunk = np.s_[:, : out.shape[0], : out.shape[1]]
    if out.dtype == np.uint8 and out.strides[1] == 1:  # planes
        np.copyto(out.transpose(2, 0, 1), _round(planes, scratch("bytes", planes.shape, np.uint8))[chunk])
        return
    if channels <= 4 and out.dtype in (np.uint8, np.float32) and out.flags.c_contiguous:
        if out.dtype == np.uint8:
            planes = _round(planes, scratch("bytes", planes.shape, np.uint8))
        cv2.merge(list(planes[chunk]), dst=out)
        return
    convert(planes[chunk].transpose(1, 2, 0), out.dtype, out=out)
