"""Functions that change the values of pixels: colors, filters and types."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from dali_proxy.pipeline._dynamic.dtypes import TYPES
from dali_proxy.pipeline._torchvision.arguments import is_sequence, positive, statistics
from dali_proxy.pipeline._torchvision.declaration import functional
from dali_proxy.pipeline._torchvision.images import Image, ops
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError
from dali_proxy.pipeline.types import DALIImageType

__all__ = ["adjust_brightness", "adjust_contrast", "adjust_hue", "adjust_saturation", "adjust_sharpness"]
__all__ += ["autocontrast", "equalize", "erase", "gaussian_blur", "gaussian_noise", "grayscale_to_rgb", "invert"]
__all__ += ["jpeg", "normalize", "posterize", "rgb_to_grayscale", "solarize", "to_dtype"]


def factor(name: str, value: Any) -> float:
    """Return a factor of an adjustment."""
    if not isinstance(value, int | float) or value < 0:
        raise ArgumentValueError(f"{name} must be a number that is not negative, got {value!r}")
    return float(value)


def shift(name: str, value: Any) -> float:
    """Return a rotation of hues, in turns."""
    if not isinstance(value, int | float) or not -0.5 <= value <= 0.5:
        raise ArgumentValueError(f"{name} must be between -0.5 and 0.5, got {value!r}")
    return float(value)


def _of_colors(function: Callable[..., Image]) -> Callable[..., Image]:
    """Return a function that changes the colors of images, and keeps an alpha channel, as PIL does."""

    @wraps(function)
    def changed(inpt: Image, *args: Any, **kwargs: Any) -> Image:
        _refuse_inks(inpt)
        if inpt.channels != 4:
            return function(inpt, *args, **kwargs)
        colors = function(inpt.replaced(inpt.channel(0, 3), channels=3), *args, **kwargs)
        return inpt.replaced(ops.cat(colors.data, inpt.channel(3), axis=inpt.layout.index("C")))

    return changed


def _refuse_inks(image: Image) -> None:
    if image.inks:
        raise ArgumentTypeError("the colors of a PIL image in CMYK can't be changed: convert it first, with RGB()")


def without_inks(image: Image) -> Image:
    """Return a PIL image in CMYK as RGB, as PIL does: multiply the light that an ink and black transmit."""
    if not image.inks:
        return image
    light = 255.0 - image.channel(3)
    absorbed = ops.math.floor(image.channel(0, 3) * light * (1 / 255) + 0.5)
    return image.replaced(ops.cast(light - absorbed, dtype=ops.uint8), channels=3, inks=False)


def _blended(image: Image, other: Any, ratio: Any) -> Image:
    """Return ``image * ratio + other * (1 - ratio)``; the ratio may exceed 1."""
    ratio = image.beside(ratio)
    return image.rounded(image.data * ratio + other * (1.0 - ratio))


def _mapped(image: Image, **arguments: Any) -> Image:
    """Change brightness and contrast of uint8 images, and truncate the values."""
    shift = (-0.5 + 1e-3) / 255  # the operator rounds
    data = ops.brightness_contrast(ops.reshape(image.data, layout="HWC"), brightness_shift=shift, **arguments)
    return image.replaced(ops.reshape(data, layout=image.layout))


def _gray(image: Image) -> Any:
    """Return the luminance as floats: one channel."""
    if image.channels < 3:
        return image.data * 1.0
    return image.channel(0) * 0.2989 + image.channel(1) * 0.587 + image.channel(2) * 0.114


def _luminance(image: Image) -> Any:
    """Return the luminance in the type of the image: one channel. For PIL images, it is rounded as PIL does."""
    if image.channels == 3 and image.layout == "HWC" and image.dtype == "uint8":
        return ops.color_space_conversion(image.data, image_type=DALIImageType.RGB, output_type=DALIImageType.GRAY)
    return ops.math.floor(_gray(image)) if image.is_integer else _gray(image)


@functional(brightness_factor=factor)
@_of_colors
def adjust_brightness(inpt: Image, brightness_factor: float) -> Image:
    """Multiply the values of images by a factor.

    Args:
        inpt: images.
        brightness_factor: factor.
    """
    if inpt.dtype == "uint8":
        return _mapped(inpt, brightness=brightness_factor)
    return inpt.rounded(inpt.data * inpt.beside(brightness_factor))


@functional(contrast_factor=factor)
@_of_colors
def adjust_contrast(inpt: Image, contrast_factor: float) -> Image:
    """Blend images with their mean luminance.

    Args:
        inpt: images.
        contrast_factor: 0 for a gray image, 1 for the image.
    """
    mean = ops.reductions.mean(_luminance(inpt))
    if inpt.layout == "HWC" and inpt.is_integer:  # as PIL
        mean = ops.math.floor(mean + 0.5)
    if inpt.dtype == "uint8" and not inpt.on_gpu:
        return _mapped(inpt, contrast=contrast_factor, contrast_center=mean)
    return _blended(inpt, mean, contrast_factor)


@functional(saturation_factor=factor)
@_of_colors
def adjust_saturation(inpt: Image, saturation_factor: float) -> Image:
    """Blend images with their gray versions.

    Args:
        inpt: images.
        saturation_factor: 0 for gray images, 1 for the images.
    """
    if inpt.channels == 1:
        return inpt
    if inpt.channels == 3 and inpt.layout == "HWC":
        saturated = ops.saturation(inpt.data, saturation=saturation_factor)
        return inpt.replaced(saturated) if inpt.is_integer else inpt.rounded(saturated)
    return _blended(inpt, _luminance(inpt), saturation_factor)


@functional(hue_factor=shift)
@_of_colors
def adjust_hue(inpt: Image, hue_factor: float) -> Image:
    """Rotate the hues of images, in the HSV color space.

    Args:
        inpt: images.
        hue_factor: rotation in turns, from -0.5 to 0.5.
    """
    if inpt.channels != 3:
        return inpt
    m = ops.math
    red, green, blue = (inpt.channel(number) * (1.0 / inpt.bound) for number in range(3))
    value = m.max(m.max(red, green), blue)
    chroma = value - m.min(m.min(red, green), blue)
    divisor = chroma + (chroma <= 0.0)
    is_red = (value <= red) * 1.0
    is_green = (value <= green) * (1.0 - is_red)
    sextant = (
        (green - blue) * is_red
        + (blue - red + divisor * 2.0) * is_green
        + (red - green + divisor * 4.0) * (1.0 - is_red - is_green)
    ) / divisor + inpt.beside(hue_factor) * 6.0
    channels = []
    for number in (5.0, 3.0, 1.0):
        turned = sextant + number
        turned = turned - m.floor(turned * (1 / 6)) * 6.0
        channels.append(value - chroma * m.clamp(m.min(turned, 4.0 - turned), 0.0, 1.0))
    joined = ops.cat(*channels, axis=inpt.layout.index("C"))
    return inpt.rounded(joined * (inpt.bound + 1.0 - 1e-3) if inpt.is_integer else joined)


def channels_last(image: Image, function: Any) -> Image:
    """Process the data of images, HWC, with a function."""
    last = image.transposed("HWC")
    return last.replaced(function(last.data)).transposed(image.layout)


_SMOOTH = np.array([[1, 1, 1], [1, 5, 1], [1, 1, 1]], np.float32) / 13


@functional(sharpness_factor=factor)
@_of_colors
def adjust_sharpness(inpt: Image, sharpness_factor: float) -> Image:
    """Blend images with smoothed versions. Border pixels stay unchanged.

    Args:
        inpt: images.
        sharpness_factor: 0 for smoothed images, 1 for the images, 2 for sharper ones.
    """
    from dali_proxy.pipeline._torchvision.geometry import window

    height, width = inpt.size()
    smooth = ops.filter(ops.cast(inpt.data, dtype=ops.float32), ops.as_tensor(_SMOOTH))
    if inpt.is_integer:
        smooth = ops.math.floor(smooth + 0.5)
    difference = inpt.replaced((smooth - inpt.data) * inpt.beside(1.0 - sharpness_factor))
    rows, columns = (ops.math.max(extent - 2, 0) for extent in (height, width))
    inner = window(difference, 1, 1, rows, columns)
    return inpt.rounded(inpt.data + window(inner, -1, -1, height, width).data)


@functional()
def autocontrast(inpt: Image) -> Image:
    """Stretch the values of each channel to the whole range."""
    _refuse_inks(inpt)
    low, high = (
        ops.reductions.__dict__[name](inpt.data, axis_names="HW", keep_dims=True) * 1.0 for name in ("min", "max")
    )
    constant = ops.cast(high <= low, dtype=ops.float32)
    scale = (1.0 - constant) * (inpt.bound / (high - low + constant)) + constant
    return inpt.rounded((inpt.data - low * (1.0 - constant)) * scale)


@functional()
def equalize(inpt: Image) -> Image:
    """Equalize the histogram of each channel of uint8 images."""
    _refuse_inks(inpt)
    return inpt.replaced(ops.equalize(inpt.data))


@functional()
def invert(inpt: Image) -> Image:
    """Invert the values of images."""
    _refuse_inks(inpt)
    return inpt.rounded(inpt.bound - inpt.data)


@functional()
def posterize(inpt: Image, bits: int) -> Image:
    """Keep the highest bits of the values of uint8 images.

    Args:
        inpt: images.
        bits: number of bits, from 0 to 8.
    """
    _refuse_inks(inpt)
    if inpt.dtype != "uint8":
        raise ArgumentTypeError(f"posterize needs uint8 images, not {inpt.dtype}")
    if isinstance(bits, int):
        step: Any = 2 ** (8 - bits)
    else:
        step = ops.cast(ops.math.pow(2.0, 8.0 - bits), dtype=ops.int32)
    whole = ops.cast(inpt.data, dtype=ops.int32)
    return inpt.replaced(ops.cast(whole // inpt.beside(step) * inpt.beside(step), dtype=ops.uint8))


@functional()
def solarize(inpt: Image, threshold: float) -> Image:
    """Invert the values of pixels that reach a threshold.

    Args:
        inpt: images.
        threshold: the threshold.
    """
    _refuse_inks(inpt)
    threshold = inpt.beside(threshold)
    return inpt.rounded(inpt.data + (inpt.bound - inpt.data * 2.0) * (inpt.data >= threshold))


@functional()
def rgb_to_grayscale(inpt: Image, num_output_channels: int = 1) -> Image:
    """Convert images to gray. An alpha channel is ignored.

    Args:
        inpt: images.
        num_output_channels: 1, or 3 for equal channels.
    """
    inpt = without_inks(inpt)
    if inpt.channels == num_output_channels == 1:
        return inpt
    if inpt.channels < 3:
        gray = inpt
    else:
        gray = inpt.replaced(ops.cast(_luminance(inpt), dtype=ops.dtype(inpt.dtype)), channels=1)
    if num_output_channels == 1:
        return gray
    data = ops.cat(gray.data, gray.data, gray.data, axis=gray.layout.index("C"))
    return gray.replaced(data, channels=3)


@functional()
def grayscale_to_rgb(inpt: Image) -> Image:
    """Repeat the channel of gray images three times. PIL images lose their alpha channel, and CMYK becomes RGB."""
    inpt = without_inks(inpt)
    if inpt.channels == 4 and inpt.layout == "HWC":
        return inpt.replaced(inpt.channel(0, 3), channels=3)
    return inpt if inpt.channels != 1 else rgb_to_grayscale(inpt, 3)


def blur_sigma(name: str, value: Any) -> list[float] | None:
    """Return the standard deviations of a blur as [vertical, horizontal]; given is (horizontal, vertical)."""
    if value is None:
        return None
    values = list(value) if is_sequence(value) else [value]
    if len(values) not in (1, 2) or not all(isinstance(each, int | float) for each in values):
        raise ArgumentValueError(f"{name} must be a number or a sequence of two, got {value!r}")
    positive(name, values)
    return [float(values[-1]), float(values[0])]


@functional(sigma=blur_sigma)
def gaussian_blur(inpt: Image, kernel_size: Any, sigma: Any = None) -> Image:
    """Blur images with a Gaussian kernel. Borders are reflected.

    Args:
        inpt: images.
        kernel_size: odd width and height of the kernel, or one number for both.
        sigma: standard deviation in x and y, or one number for both; by default it depends on `kernel_size`.
    """
    if sigma is None:
        sigma = [0.3 * ((size - 1) * 0.5 - 1) + 0.8 for size in kernel_size]
    return inpt.replaced(ops.gaussian_blur(inpt.data, window_size=kernel_size, sigma=sigma))


@functional()
def gaussian_noise(inpt: Image, mean: float = 0.0, sigma: float = 0.1, clip: bool = True) -> Image:
    """Add noise with a normal distribution to float images.

    Args:
        inpt: images.
        mean: mean of the noise.
        sigma: its standard deviation.
        clip: whether to clamp the result to the range from 0 to 1.
    """
    if inpt.is_integer:
        raise ArgumentValueError(f"gaussian_noise needs float images, not {inpt.dtype}: convert them with to_dtype")
    noisy = inpt.data + ops.random.normal(inpt.data, mean=mean, stddev=sigma)
    return inpt.rounded(noisy) if clip else inpt.replaced(noisy)


@functional()
def jpeg(inpt: Image, quality: int) -> Image:
    """Compress uint8 images as JPEGs and decode them.

    Args:
        inpt: images.
        quality: quality, from 1 to 100.
    """
    _refuse_inks(inpt)
    colors = grayscale_to_rgb(inpt)
    made = channels_last(colors, lambda data: ops.jpeg_compression_distortion(data, quality=quality))
    return inpt.replaced(made.channel(0)) if inpt.channels == 1 else made


@functional(mean=statistics, std=statistics)
def normalize(inpt: Image, mean: Any, std: Any, inplace: bool = False) -> Image:
    """Subtract a mean from each channel, and divide by a standard deviation. The result is float32.

    Args:
        inpt: images.
        mean: mean of each channel, or one for all.
        std: standard deviation of each channel, or one for all.
        inplace: must be False.
    """
    for name, values in (("mean", mean), ("std", std)):
        if len(values) not in (1, inpt.channels):
            raise ArgumentValueError(f"normalize: {name} has {len(values)} values for {inpt.channels} channels")
    if inpt.channels == len(mean) == len(std) and inpt.dtype in ("uint8", "float32"):
        data = ops.crop_mirror_normalize(inpt.data, mean=list(mean), std=list(std), output_layout=inpt.layout)
    else:
        data = (inpt.data - inpt.per_channel(mean)) / inpt.per_channel(std)
    return inpt.replaced(data, dtype="float32")


def type_name(name: str, value: Any) -> str:
    """Return the name of a type."""
    found = ops.dtype(value)
    return next(name for name, each in TYPES.items() if each is found)


@functional(dtype=type_name)
def to_dtype(inpt: Image, dtype: Any = "float32", scale: bool = False) -> Image:
    """Convert images to another type.

    Args:
        inpt: images.
        dtype: the type, also as a dtype of torch.
        scale: whether to scale the values: the range of integers becomes the range from 0 to 1 of floats.
    """
    if dtype == inpt.dtype:
        return inpt
    target = inpt.replaced(inpt.data, dtype=dtype)
    data = inpt.data
    if scale and inpt.is_integer and not target.is_integer:
        data = data * float(np.float32(1 / inpt.bound))
    elif scale and target.is_integer and not inpt.is_integer:
        data = ops.math.floor(data * (target.bound + 1.0 - 1e-3))
    elif scale and target.is_integer and target.bound > inpt.bound:
        data = ops.cast(data, dtype=ops.dtype(dtype)) * _ratio(target, inpt)
    elif scale and target.is_integer:
        data = data // _ratio(inpt, target)
    elif target.is_integer and not inpt.is_integer:
        data = ops.math.floor(data)
    return target.replaced(ops.cast(data, dtype=ops.dtype(dtype)))


def _ratio(wide: Image, narrow: Image) -> Any:
    """Return the ratio of the ranges of two types of integers, as a value of the wider type."""
    largest = (int(np.iinfo(image.dtype).max) for image in (wide, narrow))
    ratio = (next(largest) + 1) // (next(largest) + 1)
    return wide.beside(ops.as_tensor(np.array(ratio, wide.dtype)))


@functional()
def erase(inpt: Image, i: int, j: int, h: int, w: int, v: Any = 0, inplace: bool = False) -> Image:
    """Overwrite a rectangle of images.

    Args:
        inpt: images.
        i: first row.
        j: first column.
        h: number of rows.
        w: number of columns.
        v: value, or one per channel.
        inplace: must be False.
    """
    return erased(inpt, [i, j], [h, w], v)


def erased(image: Image, anchor: Any, shape: Any, value: Any) -> Image:
    """Overwrite a rectangle of each image."""
    values = [float(each) for each in (value if is_sequence(value) else [value])]
    data = ops.erase(image.data, anchor=anchor, shape=shape, axis_names="HW", fill_value=values)
    return image.replaced(data)
