"""The transforms with random numbers, and those that have the arguments of a function."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from textwrap import indent
from typing import Any

import numpy as np

from dali_proxy.pipeline._dynamic.calling import subscript
from dali_proxy.pipeline._torchvision import color, geometry
from dali_proxy.pipeline._torchvision.arguments import (
    InterpolationMode,
    Parser,
    is_sequence,
    optional,
    padding,
    resize_size,
    sigma,
    size,
    statistics,
    value_range,
)
from dali_proxy.pipeline._torchvision.control import chance, integers, switch, uniform
from dali_proxy.pipeline._torchvision.declaration import Transform, transform
from dali_proxy.pipeline._torchvision.geometry import window
from dali_proxy.pipeline._torchvision.images import Image, ops, vector
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError

_BILINEAR, _NEAREST = InterpolationMode.BILINEAR, InterpolationMode.NEAREST


def _sometimes(image: Image, p: float, step: Any, *parameters: Any) -> Image:
    """Process each image with a probability."""
    return switch(chance(image, p), [lambda image, *_: image, step], image, *parameters)


def _drawn(image: Image, limits: Any) -> Any:
    """Return a number from a range for each image; a plain number if the range is empty."""
    return limits[0] if limits[0] == limits[1] else uniform(image, *limits)


def _half_up(value: Any) -> Any:
    return ops.math.floor(value + 0.5)


@transform()
def random_horizontal_flip(image: Image, p: float = 0.5) -> Image:
    """Mirror images left to right, with a probability.

    Args:
        image: images.
        p: probability.
    """
    return geometry.flip(image, horizontal=chance(image, p))


@transform()
def random_vertical_flip(image: Image, p: float = 0.5) -> Image:
    """Mirror images top to bottom, with a probability.

    Args:
        image: images.
        p: probability.
    """
    return geometry.flip(image, vertical=chance(image, p))


@transform(padding=optional(padding))
def random_crop(
    image: Image,
    size: Any,
    padding: Any = None,
    pad_if_needed: bool = False,
    fill: Any = 0,
    padding_mode: str = "constant",
) -> Image:
    """Crop a window at a random position.

    Args:
        image: images.
        size: (height, width), or one number for both.
        padding: padding before the crop, as in `Pad`.
        pad_if_needed: whether smaller images are padded on both sides.
        fill: value of constant padding, or one per channel.
        padding_mode: mode of padding, as in `Pad`.
    """
    left, top, right, bottom = padding or (0, 0, 0, 0)
    starts = []
    for extent, before, after, wanted in zip(image.size(), (top, left), (bottom, right), size, strict=True):
        extra = ops.math.max(wanted - (extent + (before + after)), 0) if pad_if_needed else 0
        room = extent + (before + after) + extra * 2 - wanted
        starts.append(integers(image, room + 1) - (extra + before))
    outside = padding_mode if padding or pad_if_needed else "error"
    return window(image, starts[0], starts[1], size[0], size[1], fill, outside)


@transform(scale=value_range, ratio=value_range)
def random_resized_crop(
    image: Image,
    size: Any,
    scale: Any = (0.08, 1.0),
    ratio: Any = (3 / 4, 4 / 3),
    interpolation: Any = _BILINEAR,
    antialias: bool | None = True,
) -> Image:
    """Crop a window with a random area and aspect ratio, and resize it.

    Args:
        image: images.
        size: (height, width) of the result, or one number for both.
        scale: range of the window's area, as a fraction of the image's.
        ratio: range of the window's width / height.
        interpolation: interpolation.
        antialias: whether to filter along axes that shrink.
    """
    return geometry.filtered(
        image,
        lambda data, antialias: ops.random_resized_crop(
            data,
            size=list(size),
            random_area=list(scale),
            random_aspect_ratio=list(ratio),
            interp_type=interpolation,
            antialias=antialias,
        ),
        interpolation,
        antialias,
    )


@transform()
def color_jitter(
    image: Image,
    brightness: Any = 0.0,
    contrast: Any = 0.0,
    saturation: Any = 0.0,
    hue: Any = 0.0,
) -> Image:
    """Change brightness, contrast, saturation and hue by random factors, in this order.

    Args:
        image: images.
        brightness: range of the factor, or its largest difference from 1.
        contrast: same.
        saturation: same.
        hue: range of the rotation in turns, or the largest rotation.
    """
    steps = (
        (brightness, 1.0, color.adjust_brightness),
        (contrast, 1.0, color.adjust_contrast),
        (saturation, 1.0, color.adjust_saturation),
        (hue, 0.0, color.adjust_hue),
    )
    for limits, neutral, step in steps:
        if tuple(limits) != (neutral, neutral):
            image = step(image, _drawn(image, limits))
    return image


@transform()
def random_grayscale(image: Image, p: float = 0.1) -> Image:
    """Convert images to gray, with a probability. The number of channels stays the same.

    Args:
        image: images.
        p: probability.
    """
    if image.channels != 3:
        return image
    return _sometimes(image, p, lambda image: color.rgb_to_grayscale(image, 3))


@transform(sigma=sigma)
def gaussian_blur(image: Image, kernel_size: Any, sigma: Any = (0.1, 2.0)) -> Image:
    """Blur images with a Gaussian kernel of random width.

    Args:
        image: images.
        kernel_size: odd width and height of the kernel, or one number for both.
        sigma: range of the standard deviation, or one number.
    """
    drawn = _drawn(image, sigma)
    return color.gaussian_blur(image, kernel_size, vector(drawn, drawn))


def _pair_or_none(name: str, value: Any) -> Any:
    if value is not None and (not isinstance(value, list | tuple) or len(value) != 2):
        raise ArgumentTypeError(f"{name} should be a sequence of length 2, got {value!r}")
    return value


def _translation(name: str, value: Any) -> Any:
    if value is not None and any(not 0.0 <= each <= 1.0 for each in _pair_or_none(name, value)):
        raise ArgumentValueError("translation values should be between 0 and 1")
    return value


def _shears(name: str, value: Any) -> Any:
    """Return the ranges of shears along both axes."""
    if value is None:
        return None
    values = [-value, value] if isinstance(value, int | float) else list(value)
    if len(values) not in (2, 4) or (isinstance(value, int | float) and value < 0):
        raise ArgumentValueError(f"{name} should be a positive number, or a sequence of length 2 or 4, got {value!r}")
    return (values[:2], values[2:] or [0.0, 0.0])


@transform(center=_pair_or_none)
def random_rotation(
    image: Image,
    degrees: Any,
    interpolation: Any = _NEAREST,
    expand: bool = False,
    center: Any = None,
    fill: Any = 0,
) -> Image:
    """Rotate images by a random angle.

    Args:
        image: images.
        degrees: range of the angle, or the largest angle.
        interpolation: NEAREST, BILINEAR or BICUBIC.
        expand: whether the result is large enough for the whole rotated image.
        center: fixed point (x, y); by default the centre of the image.
        fill: value outside of the images, or one per channel.
    """
    return geometry.rotate(image, _drawn(image, degrees), interpolation, expand, center, fill)


@transform(translate=_translation, scale=optional(value_range), shear=_shears, center=_pair_or_none)
def random_affine(
    image: Image,
    degrees: Any,
    translate: Any = None,
    scale: Any = None,
    shear: Any = None,
    interpolation: Any = _NEAREST,
    fill: Any = 0,
    center: Any = None,
) -> Image:
    """Rotate, move, scale and shear images randomly.

    Args:
        image: images.
        degrees: range of the angle, or the largest angle.
        translate: largest translation in x and y, as fractions of the extents.
        scale: range of the factor.
        shear: largest shear along x, its range, or ranges along both axes, in degrees.
        interpolation: NEAREST, BILINEAR or BICUBIC.
        fill: value outside of the images, or one per channel.
        center: fixed point (x, y); by default the centre of the image.
    """
    angle = _drawn(image, degrees)
    moves: Sequence[Any] = (0.0, 0.0)
    if translate is not None:
        extents = image.size()[::-1]
        moves = [
            _half_up(uniform(image, -each, each) * extent) for each, extent in zip(translate, extents, strict=True)
        ]
    factor = 1.0 if scale is None else _drawn(image, scale)
    shears = [0.0, 0.0] if shear is None else [_drawn(image, limits) for limits in shear]
    return geometry.affine(image, angle, moves, factor, shears, interpolation, fill, center)


@transform()
def random_perspective(
    image: Image,
    distortion_scale: float = 0.5,
    p: float = 0.5,
    interpolation: Any = _BILINEAR,
    fill: Any = 0,
) -> Image:
    """Move the corners of images inwards by random distances, with a probability.

    Args:
        image: images.
        distortion_scale: largest distance, from 0 to 1 (the centre).
        p: probability.
        interpolation: NEAREST, BILINEAR or BICUBIC.
        fill: value outside of the images, or one per channel.
    """
    applied = chance(image, p)
    height, width = (extent * 1.0 for extent in image.size())
    corners = []
    for right, bottom in ((0, 0), (1, 0), (1, 1), (0, 1)):
        x, y = (
            ops.math.floor(uniform(image, 0, 1) * (extent * (0.5 * distortion_scale) + 1.0)) * applied
            for extent in (width, height)
        )
        corners.append((width - x if right else x, height - y if bottom else y))
    matrix = geometry.quadrilateral(corners)
    scaled = [entry / (width, height, 1.0)[column % 3] for column, entry in enumerate(matrix)]
    return geometry.warp(image, scaled, interpolation, fill)


def _erase_value(name: str, value: Any) -> Any:
    if isinstance(value, str) and value != "random":
        raise ArgumentValueError(f'If {name} is str, it should be "random", got {value!r}')
    if not isinstance(value, int | float | str | list | tuple):
        raise ArgumentTypeError(f"{name} should be a number, a sequence or a string, got {value!r}")
    return value


@transform(value=_erase_value, scale=value_range, ratio=value_range)
def random_erasing(
    image: Image,
    p: float = 0.5,
    scale: Any = (0.02, 0.33),
    ratio: Any = (0.3, 3.3),
    value: Any = 0,
    inplace: bool = False,
) -> Image:
    """Overwrite a rectangle of random position, area and aspect ratio, with a probability.

    Args:
        image: images.
        p: probability.
        scale: range of the area, as a fraction of the image's.
        ratio: range of the aspect ratio.
        value: value of the rectangle, one per channel, or "random" for noise with a normal distribution.
        inplace: must be False.
    """
    applied = chance(image, p)
    height, width = (extent * 1.0 for extent in image.size())
    area = height * width * uniform(image, *scale)
    aspect = ops.math.exp(uniform(image, math.log(ratio[0]), math.log(ratio[1])))
    m = ops.math
    rows = m.min(_half_up(m.sqrt(area * aspect)), height - 1.0)
    columns = m.min(_half_up(m.sqrt(area / aspect)), width - 1.0)
    anchor = vector(*(m.floor(uniform(image, 0, 1) * (a - b + 1.0)) for a, b in ((height, rows), (width, columns))))
    shape = vector(rows * applied, columns * applied)
    if value != "random":
        return color.erased(image, anchor, shape, value)
    mask = color.erased(image.replaced(ops.cast_like(image.data * 0 + 1, image.data)), anchor, shape, 0)
    noise = ops.random.normal(image.data, dtype=ops.float32)
    mixed = image.data * mask.data + noise * (1.0 - mask.data)
    return image.rounded(mixed) if image.is_integer else image.replaced(mixed)


def _randomly(name: str, function: Callable[..., Image], **parsers: Parser) -> type[Transform]:
    """Return the transform that calls a function of images with a probability: its last argument `p`."""
    given = inspect.signature(function)
    probability = inspect.Parameter("p", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=0.5, annotation="float")
    own = [each for each in given.parameters.values() if each.name != "device"]

    def change(image: Image, p: float, **arguments: Any) -> Image:
        return _sometimes(image, p, partial(function, **arguments))

    first, *rest = (inspect.getdoc(function) or "").split("\n")
    lines = [first.replace(".", ", with a probability.", 1), *(rest or ["", "Args:"]), "    p: probability.", ""]
    change.__doc__ = indent("\n".join(lines), "    ")
    change.__signature__ = given.replace(parameters=[*own, probability])  # type: ignore[attr-defined]
    return transform(name, **parsers)(change)


RandomInvert = _randomly("RandomInvert", color.invert)
RandomPosterize = _randomly("RandomPosterize", color.posterize)
RandomSolarize = _randomly("RandomSolarize", color.solarize)
RandomAdjustSharpness = _randomly("RandomAdjustSharpness", color.adjust_sharpness, sharpness_factor=color.factor)
RandomAutocontrast = _randomly("RandomAutocontrast", color.autocontrast)
RandomEqualize = _randomly("RandomEqualize", color.equalize)


@transform()
def random_photometric_distort(
    image: Image,
    brightness: Any = (0.875, 1.125),
    contrast: Any = (0.5, 1.5),
    saturation: Any = (0.5, 1.5),
    hue: Any = (-0.05, 0.05),
    p: float = 0.5,
) -> Image:
    """Change brightness, contrast, saturation and hue by random factors, and permute channels, with a probability each.

    Args:
        image: images.
        brightness: range of the factor.
        contrast: range of the factor.
        saturation: range of the factor.
        hue: range of the rotation in turns.
        p: probability of each change.
    """
    steps = {
        color.adjust_brightness: brightness,
        color.adjust_contrast: contrast,
        color.adjust_saturation: saturation,
        color.adjust_hue: hue,
    }
    for step, limits in steps.items():
        image = _sometimes(image, p, step, uniform(image, *limits))
    return switch(chance(image, p), [lambda image, *_: image, _permuted], image, _permutation(image))


def _permutation(image: Image) -> Any:
    """Draw an order of the channels for each image."""
    if image.channels > 6:
        raise ArgumentValueError(f"channels are permuted in images of up to 6 channels, not {image.channels}")
    orders = np.array(list(itertools.permutations(range(image.channels))), np.int32)
    return subscript(ops.as_tensor(orders), (integers(image, len(orders)),))


def _permuted(image: Image, order: Any) -> Image:
    axis = image.layout.index("C")
    channels = []
    for number in range(image.channels):
        key: list[Any] = [slice(None)] * 3
        key[axis] = subscript(order, number)
        channels.append(subscript(image.data, tuple(key)))
    return image.replaced(ops.stack(*channels, axis=axis, axis_name="C"))


@transform()
def random_channel_permutation(image: Image) -> Image:
    """Put the channels of images in a random order."""
    return _permuted(image, _permutation(image))


@transform(side_range=value_range)
def random_zoom_out(image: Image, fill: Any = 0, side_range: Any = (1.0, 4.0), p: float = 0.5) -> Image:
    """Put images at a random position on a larger canvas, with a probability.

    Args:
        image: images.
        fill: value of the canvas, or one per channel.
        side_range: range of the factor between the sides of the canvas and of the image.
        p: probability.
    """
    factor = 1.0 + (uniform(image, *side_range) - 1.0) * chance(image, p)
    height, width = image.size()
    rows, columns = (ops.math.floor(extent * factor + 1e-4) for extent in (height, width))
    top, left = (ops.math.floor(uniform(image, 0, 1) * (a - b * 1.0)) for a, b in ((rows, height), (columns, width)))
    return window(image, top * -1.0, left * -1.0, rows, columns, fill)


@transform()
def random_resize(
    image: Image,
    min_size: int,
    max_size: int,
    interpolation: Any = _BILINEAR,
    antialias: bool | None = True,
) -> Image:
    """Resize images so that the shorter side has a random length.

    Args:
        image: images.
        min_size: smallest length.
        max_size: the length is smaller than this number.
        interpolation: interpolation.
        antialias: whether to filter along axes that shrink.
    """
    length = integers(image, max_size - min_size) + min_size
    return geometry.resize(image, length, interpolation, None, antialias)


@transform(min_size=lambda name, value: [float(each) for each in (value if is_sequence(value) else [value])])
def random_shortest_size(
    image: Image, min_size: Any, max_size: int | None = None, interpolation: Any = _BILINEAR, antialias: Any = True
) -> Image:
    """Resize images so that the shorter side has one of several lengths.

    Args:
        image: images.
        min_size: the lengths, or one.
        max_size: largest length of the longer side.
        interpolation: interpolation.
        antialias: whether to filter along axes that shrink.
    """
    length = ops.random.uniform(values=min_size, dtype=ops.int32, batch_size=image.batch_size)
    return geometry.resize(image, length, interpolation, max_size, antialias)


@transform(target_size=size)
def scale_jitter(
    image: Image,
    target_size: Sequence[int],
    scale_range: Any = (0.1, 2.0),
    interpolation: Any = _BILINEAR,
    antialias: bool | None = True,
) -> Image:
    """Resize images to fit into a random multiple of a size.

    Args:
        image: images.
        target_size: the size, (height, width).
        scale_range: range of the factor.
        interpolation: interpolation.
        antialias: whether to filter along axes that shrink.
    """
    height, width = (extent * 1.0 for extent in image.size())
    ratio = ops.math.min(target_size[0] / height, target_size[1] / width) * uniform(image, *scale_range)
    size = (ops.math.max(ops.math.floor(extent * ratio), 1.0) for extent in (height, width))
    return geometry.resized(image, list(size), interpolation, antialias)


@transform()
def center_crop(image: Image, size: Any) -> Image:
    """Crop the centre of images. Smaller images are padded with black.

    Args:
        image: images.
        size: (height, width), or one number for both.
    """
    return geometry.center_crop(image, size)


@transform(name="JPEG", quality=lambda name, value: (value, value) if isinstance(value, int) else value)
def _jpeg(image: Image, quality: Any) -> Image:
    """Compress uint8 images as JPEGs of random quality, and decode them.

    Args:
        image: images.
        quality: quality from 1 to 100, or a range (min, max).
    """
    low, high = quality
    return color.jpeg(image, integers(image, high - low + 1) + low)


@transform(dtype=color.type_name)
def convert_image_dtype(image: Image, dtype: Any = "float32") -> Image:
    """Convert images to another type, and scale the values to its range.

    Args:
        image: images.
        dtype: the type, also as a dtype of torch.
    """
    return color.to_dtype(image, dtype, True)


def _check_resize(size: Any, max_size: Any, **_: Any) -> None:
    geometry.check_max_size(size, max_size)


#: The transforms that have the arguments of a function.
Resize = transform("Resize", _check_resize, size=resize_size)(geometry.resize)
Pad, FiveCrop, TenCrop = (transform()(function) for function in (geometry.pad, geometry.five_crop, geometry.ten_crop))
Grayscale = transform("Grayscale")(color.rgb_to_grayscale)
Normalize = transform(mean=statistics, std=statistics)(color.normalize)
RGB = transform("RGB")(color.grayscale_to_rgb)
GaussianNoise = transform()(color.gaussian_noise)
ToDtype = transform(dtype=color.type_name)(color.to_dtype)
