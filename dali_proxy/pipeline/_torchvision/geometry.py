"""Functions that move pixels: sizes, crops, flips, padding and warps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._dynamic.calling import subscript
from dali_proxy.pipeline._torchvision.arguments import InterpolationMode, resize_size
from dali_proxy.pipeline._torchvision.declaration import functional
from dali_proxy.pipeline._torchvision.images import Image, ops, vector
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError
from dali_proxy.pipeline.types import DALIInterpType

__all__ = ["affine", "center_crop", "crop", "five_crop", "horizontal_flip", "pad", "perspective", "resize"]
__all__ += ["resized_crop", "rotate", "ten_crop", "vertical_flip"]

_maximum, _minimum = ops.math.max, ops.math.min


def where(condition: Any, chosen: Any, other: Any) -> Any:
    """Return one of two integers for each image."""
    return other + (chosen - other) * condition


@functional(size=resize_size)
def resize(
    inpt: Image,
    size: Any,
    interpolation: Any = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Image:
    """Resize images.

    Args:
        inpt: images.
        size: (height, width), or one number for the shorter side; the longer side is truncated, as in torchvision.
        interpolation: interpolation.
        max_size: largest length of the longer side. With a `size` of None, its length.
        antialias: whether to filter tensors along axes that shrink. PIL images are always filtered.
    """
    check_max_size(size, max_size)
    target = size if isinstance(size, tuple | list) else _scaled(*inpt.size(), size, max_size)
    return resized(inpt, target, interpolation, antialias)


def resized(image: Image, size: Any, interpolation: Any, antialias: bool | None) -> Image:
    """Return images in a size, which may be a number for each image."""
    return filtered(
        image,
        lambda data, antialias: ops.resize(
            data, size=vector(*size), interp_type=interpolation, antialias=antialias, subpixel_scale=False
        ),
        interpolation,
        antialias,
    )


def filtered(image: Image, resize: Callable[[Any, bool], Any], interpolation: Any, antialias: bool | None) -> Image:
    """Resize images as PIL does if they are HWC: always with antialiasing, and with colors weighted by alpha.

    Args:
        image: images.
        resize: function that resizes data, with antialiasing or without.
        interpolation: interpolation.
        antialias: whether to filter tensors along axes that shrink.
    """
    nearest = interpolation is DALIInterpType.INTERP_NN
    if nearest or image.layout != "HWC":
        return image.replaced(resize(image.data, bool(antialias) and not nearest))
    if image.channels != 4 or image.inks or image.dtype != "uint8":
        return image.replaced(resize(image.data, True))
    alpha = image.channel(3)
    weighted = ops.math.floor(image.channel(0, 3) * (alpha * 1.0) * (1 / 255) + 0.5)
    made = image.replaced(resize(ops.cat(ops.cast(weighted, dtype=ops.uint8), alpha, axis=2), True))
    alpha = made.channel(3)
    divisor = alpha + (alpha <= 0) * 255.0
    colors = ops.math.clamp(ops.math.floor(made.channel(0, 3) * 255.0 / divisor), 0.0, 255.0)
    return image.replaced(ops.cat(ops.cast(colors, dtype=ops.uint8), alpha, axis=2))


def check_max_size(size: Any, max_size: Any) -> None:
    """Check the combination of two arguments of `resize`."""
    if size is None and max_size is None:
        raise ArgumentValueError("Must provide max_size if size is None.")
    if max_size is not None and isinstance(size, tuple | list):
        raise ArgumentValueError(
            "max_size should only be passed if size specifies the length of the smaller edge: size should be an int"
        )
    if isinstance(size, int) and max_size is not None and max_size < size:
        raise ArgumentValueError("max_size should not be smaller than the actual size")


def _scaled(height: Any, width: Any, size: Any, max_size: Any) -> tuple[Any, Any]:
    """Return the size of images whose shorter side gets a length, in integers that are truncated."""
    if size is None:
        longer = _maximum(height, width)
        return max_size * height // longer, max_size * width // longer
    new_height, new_width = _maximum(size * height // width, size), _maximum(size * width // height, size)
    if max_size is None:
        return new_height, new_width
    longer = _maximum(new_height, new_width)
    shorter = _minimum(max_size * size // longer, size)
    limited = _minimum(longer, max_size)
    return where(new_height >= longer, limited, shorter), where(new_width >= longer, limited, shorter)


@functional()
def crop(inpt: Image, top: int, left: int, height: int, width: int) -> Image:
    """Crop a window out of images. Pixels outside of them are black.

    Args:
        inpt: images.
        top: first row.
        left: first column.
        height: number of rows.
        width: number of columns.
    """
    return window(inpt, top, left, height, width)


def window(
    image: Image, top: Any, left: Any, height: Any, width: Any, fill: Sequence[float] = (0.0,), outside: str = "pad"
) -> Image:
    """Return a window of images, in pixels, which may exceed them."""
    start, extent = (_integers(*pair) for pair in ((top, left), (height, width)))
    data = ops.slice(
        image.data,
        start=start,
        shape=extent,
        axis_names="HW",
        out_of_bounds_policy=outside,
        fill_values=checked_fill(image, fill),
    )
    return image.replaced(data)


def _integers(*values: Any) -> Any:
    joined = vector(*values)
    return [int(each) for each in joined] if isinstance(joined, list) else ops.cast(joined, dtype=ops.int32)


def checked_fill(image: Image, fill: Sequence[float]) -> list[float]:
    """Return the value outside of images, or one per channel.

    Raises:
        ArgumentValueError: the number of values differs from that of the channels.
    """
    if len(fill) not in (1, image.channels):
        raise ArgumentValueError(f"fill has {len(fill)} values for {image.channels} channels")
    return list(fill)


@functional()
def center_crop(inpt: Image, output_size: Any) -> Image:
    """Crop the centre of images. Smaller images are padded with black.

    Args:
        inpt: images.
        output_size: (height, width), or one number for both.
    """
    starts = (_centered(extent - wanted) for extent, wanted in zip(inpt.size(), output_size, strict=True))
    return window(inpt, *starts, *output_size)


def _centered(excess: Any) -> Any:
    """Return the start of a centered window. Odd halves are rounded to even numbers, as in torchvision."""
    inside, outside = _maximum(excess, 0), _maximum(0 - excess, 0)
    return inside // 2 + (inside % 2) * (inside // 2 % 2) - outside // 2


@functional()
def resized_crop(
    inpt: Image,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Any,
    interpolation: Any = InterpolationMode.BILINEAR,
    antialias: bool | None = True,
) -> Image:
    """Crop a window out of images and resize it.

    Args:
        inpt: images.
        top: first row.
        left: first column.
        height: number of rows.
        width: number of columns.
        size: (height, width) of the result, or one number for both.
        interpolation: interpolation.
        antialias: whether to filter along axes that shrink.
    """
    part = window(inpt, top, left, height, width)
    return resized(part, size, interpolation, antialias)


@functional()
def horizontal_flip(inpt: Image) -> Image:
    """Mirror images left to right."""
    return flip(inpt, horizontal=1)


@functional()
def vertical_flip(inpt: Image) -> Image:
    """Mirror images top to bottom."""
    return flip(inpt, vertical=1)


def flip(image: Image, horizontal: Any = 0, vertical: Any = 0) -> Image:
    """Mirror those images for which the arguments are 1."""
    return image.replaced(ops.flip(image.data, horizontal=horizontal, vertical=vertical))


@functional()
def pad(
    inpt: Image,
    padding: Any,
    fill: Any = 0,
    padding_mode: str = "constant",
) -> Image:
    """Pad images.

    Args:
        inpt: images.
        padding: width of all borders, (left/right, top/bottom), or (left, top, right, bottom).
        fill: value of constant padding, or one per channel.
        padding_mode: "constant", "edge" (the last pixel), "reflect" (mirrored without it) or "symmetric" (with it).
    """
    left, top, right, bottom = padding
    height, width = inpt.size()
    return window(inpt, -top, -left, height + (top + bottom), width + (left + right), fill, padding_mode)


@functional()
def five_crop(inpt: Image, size: Any) -> tuple[Image, ...]:
    """Return the crops of the corners (top left, top right, bottom left, bottom right) and of the centre.

    Args:
        inpt: images.
        size: (height, width) of the crops, or one number for both.
    """
    height, width = inpt.size()
    rows, columns = height - size[0], width - size[1]
    corners = [(0, 0), (0, columns), (rows, 0), (rows, columns)]
    return (*(window(inpt, y, x, size[0], size[1], outside="error") for y, x in corners), center_crop(inpt, size))


@functional()
def ten_crop(inpt: Image, size: Any, vertical_flip: bool = False) -> tuple[Image, ...]:
    """Return the five crops of images, and those of the mirrored images.

    Args:
        inpt: images.
        size: (height, width) of the crops, or one number for both.
        vertical_flip: whether to mirror top to bottom, and not left to right.
    """
    mirrored = flip(inpt, horizontal=int(not vertical_flip), vertical=int(vertical_flip))
    return (*five_crop(inpt, size), *five_crop(mirrored, size))


_NEAREST = InterpolationMode.NEAREST


@functional()
def affine(
    inpt: Image,
    angle: float,
    translate: Any,
    scale: float,
    shear: Any,
    interpolation: Any = _NEAREST,
    fill: Any = 0,
    center: Any = None,
) -> Image:
    """Rotate, shear, scale and move images.

    Args:
        inpt: images.
        angle: degrees, clockwise.
        translate: pixels to the right and down.
        scale: factor.
        shear: degrees along the x axis, or along both axes.
        interpolation: NEAREST, BILINEAR or BICUBIC.
        fill: value outside of the images, or one per channel.
        center: fixed point (x, y); by default the centre of the image.
    """
    shears = [*shear, *shear][:2] if isinstance(shear, list | tuple) else [shear, 0.0]
    point = _middle(inpt) if center is None else list(center)
    m = ops.transforms
    before: list[Any] = []  # the matrix so far
    if _changes(shears[0]):
        before = [m.shear(angles=vector(shears[0] * -1.0, 0.0), center=point)]
    if _changes(shears[1]):
        before = [m.shear(*before, angles=vector(0.0, shears[1] * -1.0), center=point)]
    if _changes(scale, 1.0):
        before = [m.scale(*before, scale=vector(scale, scale), center=point)]
    rotated = m.rotation(*before, angle=angle, center=point)
    if any(map(_changes, translate)):
        rotated = m.translation(rotated, offset=vector(*translate))
    return warp(inpt, _square(rotated), interpolation, fill)


def _changes(value: Any, neutral: float = 0.0) -> bool:
    """Return whether a parameter may change images: numbers for each image may."""
    return not isinstance(value, int | float) or value != neutral


def _middle(image: Image) -> Any:
    """Return the centre of images, as (x, y)."""
    height, width = image.size()
    return vector(width, height) * 0.5


def warp(image: Image, matrix: Any, interpolation: Any, fill: Sequence[float], size: Any = None) -> Image:
    """Warp images.

    Args:
        image: images.
        matrix: map from positions in the images to positions in the result: 9 numbers, or an array of 2 or 3 rows.
        interpolation: interpolation.
        fill: value outside of the images.
        size: height and width of the result; by default those of the images.
    """
    if interpolation is DALIInterpType.INTERP_LANCZOS3:
        raise ArgumentValueError("warps interpolate with NEAREST, BILINEAR or BICUBIC")
    data = ops.experimental.warp_perspective(
        image.data,
        matrix=vector(*matrix) if isinstance(matrix, list) else ops.reshape(matrix, shape=[9]),
        inverse_map=False,
        interp_type=interpolation,
        fill_value=checked_fill(image, fill),
        size=size,
    )
    return image.replaced(data)


def _square(matrix: Any) -> Any:
    """Return the matrix of an affine map with its third row."""
    return ops.cat(matrix, ops.as_tensor(np.array([[0, 0, 1]], np.float32)), axis=0)


@functional()
def rotate(
    inpt: Image,
    angle: float,
    interpolation: Any = _NEAREST,
    expand: bool = False,
    center: Any = None,
    fill: Any = 0,
) -> Image:
    """Rotate images counter-clockwise.

    Args:
        inpt: images.
        angle: degrees.
        interpolation: NEAREST, BILINEAR or BICUBIC.
        expand: whether the result is large enough for the whole rotated image; then `center` isn't used.
        center: fixed point (x, y); by default the centre of the image.
        fill: value outside of the images, or one per channel.
    """
    quarters = angle / 90 % 4 if isinstance(angle, int | float) and center is None else None
    if quarters in ((0, 1, 2, 3) if expand else (0, 2)):
        return _turned(inpt, quarters)
    middle = _middle(inpt)
    point = middle if center is None or expand else list(center)
    matrix = ops.transforms.rotation(angle=angle * -1.0, center=point)
    if not expand:
        return warp(inpt, _square(matrix), interpolation, fill)
    extents = ops.reductions.sum(ops.math.fabs(subscript(matrix, (slice(None), slice(0, 2))) * middle), axes=1)
    sizes = _expanded(extents, middle)
    matrix = ops.transforms.translation(matrix, offset=sizes * 0.5 - middle)
    return warp(inpt, _square(matrix), interpolation, fill, subscript(sizes, slice(None, None, -1)))


def _turned(image: Image, quarters: Any) -> Image:
    """Return images after quarter turns counter-clockwise, without interpolation."""
    if quarters % 2:
        order = [1, 0, 2] if image.layout == "HWC" else [0, 2, 1]
        image = image.replaced(ops.transpose(image.data, perm=order, transpose_layout=False))
    return flip(image, horizontal=int(quarters in (2, 3)), vertical=int(quarters in (1, 2)))


def _expanded(half: Any, before: Any) -> Any:
    """Return the extent of a rotated image, from half of its exact extent and half of the extent before."""
    tolerance = 1e-3  # float32 has no more digits for large images
    return ops.math.ceil(before + half - tolerance) - ops.math.floor(before - half + tolerance)


@functional()
def perspective(
    inpt: Image,
    startpoints: Any,
    endpoints: Any,
    interpolation: Any = InterpolationMode.BILINEAR,
    fill: Any = 0,
    coefficients: Any = None,
) -> Image:
    """Warp images so that four points move to four other points.

    Args:
        inpt: images.
        startpoints: four points (x, y) of the images.
        endpoints: their positions in the result.
        interpolation: NEAREST, BILINEAR or BICUBIC.
        fill: value outside of the images, or one per channel.
        coefficients: instead of the points, 8 numbers of the map from the result to the images.
    """
    if coefficients is not None:
        forward = np.linalg.inv(np.array([*coefficients, 1.0]).reshape(3, 3))
    elif startpoints is None or endpoints is None:
        raise ArgumentTypeError("perspective needs startpoints and endpoints, or coefficients")
    else:
        quads = [np.array(quadrilateral(points)).reshape(3, 3) for points in (startpoints, endpoints)]
        forward = quads[1] @ np.linalg.inv(quads[0])
    return warp(inpt, forward.ravel().tolist(), interpolation, fill)


def quadrilateral(points: Sequence[Sequence[Any]]) -> list[Any]:
    """Return the 9 numbers of the perspective map of the unit square to four points (Heckbert 1989, equation 2.14).

    Args:
        points: the images of (0, 0), (1, 0), (1, 1) and (0, 1).
    """
    (x0, y0), (x1, y1), (x2, y2), (x3, y3) = points
    dx1, dx2, dx3 = x1 - x2, x3 - x2, x0 - x1 + x2 - x3
    dy1, dy2, dy3 = y1 - y2, y3 - y2, y0 - y1 + y2 - y3
    area = (dx1 * dy2 - dx2 * dy1) * 1.0
    g, h = (dx3 * dy2 - dx2 * dy3) / area, (dx1 * dy3 - dx3 * dy1) / area
    return [x1 - x0 + g * x1, x3 - x0 + h * x3, x0, y1 - y0 + g * y1, y3 - y0 + h * y3, y0, g, h, 1.0]
