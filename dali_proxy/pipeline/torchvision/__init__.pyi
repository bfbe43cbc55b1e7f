# Written by `python -m docs.stubs`.

"""Transforms with the names, arguments and semantics of `torchvision.transforms.v2`, as operators of this project.

Example:
    >>> from PIL import Image
    >>> from dali_proxy.torchvision import CenterCrop, Compose, PILToTensor, Resize
    >>> Compose([Resize(32), CenterCrop(24), PILToTensor()])(Image.new("RGB", (80, 60))).shape
    torch.Size([3, 24, 24])"""

from builtins import bool as _bool
from collections.abc import Sequence
from typing import Any, TypeVar
from dali_proxy.pipeline._torchvision.declaration import Transform

from dali_proxy.pipeline._torchvision.automatic import AutoAugmentPolicy as AutoAugmentPolicy
from dali_proxy.pipeline._torchvision.containers import Compose as Compose
from dali_proxy.pipeline._torchvision.arguments import InterpolationMode as InterpolationMode
from dali_proxy.pipeline.torchvision import functional as functional
from dali_proxy.pipeline._torchvision.containers import Lambda as Lambda
from dali_proxy.pipeline._torchvision.containers import RandomApply as RandomApply
from dali_proxy.pipeline._torchvision.containers import RandomChoice as RandomChoice
from dali_proxy.pipeline._torchvision.containers import RandomOrder as RandomOrder

_T = TypeVar("_T")

__all__ = [
    'AutoAugmentPolicy', 'Compose', 'InterpolationMode', 'functional', 'AugMix', 'AutoAugment', 'CenterCrop',
    'ColorJitter', 'ConvertImageDtype', 'ElasticTransform', 'FiveCrop', 'GaussianBlur', 'GaussianNoise',
    'Grayscale', 'JPEG', 'Lambda', 'Normalize', 'PILToTensor', 'Pad', 'RGB', 'RandAugment',
    'RandomAdjustSharpness', 'RandomAffine', 'RandomApply', 'RandomAutocontrast', 'RandomChannelPermutation',
    'RandomChoice', 'RandomCrop', 'RandomEqualize', 'RandomErasing', 'RandomGrayscale',
    'RandomHorizontalFlip', 'RandomInvert', 'RandomOrder', 'RandomPerspective', 'RandomPhotometricDistort',
    'RandomPosterize', 'RandomResize', 'RandomResizedCrop', 'RandomRotation', 'RandomShortestSize',
    'RandomSolarize', 'RandomVerticalFlip', 'RandomZoomOut', 'Resize', 'ScaleJitter', 'TenCrop', 'ToDtype',
    'ToImage', 'ToPILImage', 'ToPureTensor', 'ToTensor', 'TrivialAugmentWide',
]

class AugMix(Transform):
    """Mix uint8 images with the results of several chains of random operations (AugMix).

    Args:
        severity: number of magnitudes, from 1 to 10; the weakest ones are taken.
        mixture_width: number of chains.
        chain_depth: number of operations of a chain; by default random, from 1 to 3.
        alpha: parameter of the distributions of the weights.
        all_ops: whether to use brightness, color, contrast and sharpness.
        interpolation: interpolation of warps.
        fill: value outside of warped images, or one per channel; by default black.
    """
    def __init__(
        self, severity: int = 3, mixture_width: int = 3, chain_depth: int = -1, alpha: float = 1.0,
        all_ops: _bool = True, interpolation: Any = InterpolationMode.BILINEAR, fill: Any = None,
        device: Any = 'cpu',
    ) -> None: ...

class AutoAugment(Transform):
    """Apply one of the sequences of operations of a policy of AutoAugment to uint8 images.

    Args:
        policy: "imagenet", "cifar10" or "svhn".
        interpolation: interpolation of warps.
        fill: value outside of warped images, or one per channel; by default black.
    """
    def __init__(
        self, policy: Any = AutoAugmentPolicy.IMAGENET, interpolation: Any = InterpolationMode.NEAREST,
        fill: Any = None, device: Any = 'cpu',
    ) -> None: ...

class CenterCrop(Transform):
    """Crop the centre of images. Smaller images are padded with black.

    Args:
        size: (height, width), or one number for both.
    """
    def __init__(self, size: Any, device: Any = 'cpu') -> None: ...

class ColorJitter(Transform):
    """Change brightness, contrast, saturation and hue by random factors, in this order.

    Args:
        brightness: range of the factor, or its largest difference from 1.
        contrast: same.
        saturation: same.
        hue: range of the rotation in turns, or the largest rotation.
    """
    def __init__(
        self, brightness: Any = 0.0, contrast: Any = 0.0, saturation: Any = 0.0, hue: Any = 0.0,
        device: Any = 'cpu',
    ) -> None: ...

class ConvertImageDtype(Transform):
    """Convert images to another type, and scale the values to its range.

    Args:
        dtype: the type, also as a dtype of torch.
    """
    def __init__(self, dtype: Any = 'float32', device: Any = 'cpu') -> None: ...

class ElasticTransform(Transform):
    """Move the pixels of images by random distances, which change smoothly.

    Args:
        alpha: strength of the distortion, or one for x and one for y.
        sigma: smoothness of the distortion: the standard deviation of a Gaussian filter, or one for x and one for y.
        interpolation: NEAREST, BILINEAR or BICUBIC.
        fill: value outside of the images, or one per channel.
    """
    def __init__(
        self, alpha: Any = 50.0, sigma: Any = 5.0, interpolation: Any = InterpolationMode.BILINEAR, fill: Any = 0,
        device: Any = 'cpu',
    ) -> None: ...

class FiveCrop(Transform):
    """Return the crops of the corners (top left, top right, bottom left, bottom right) and of the centre.

    Args:
        size: (height, width) of the crops, or one number for both.
    """
    def __init__(self, size: Any, device: Any = 'cpu') -> None: ...

class GaussianBlur(Transform):
    """Blur images with a Gaussian kernel of random width.

    Args:
        kernel_size: odd width and height of the kernel, or one number for both.
        sigma: range of the standard deviation, or one number.
    """
    def __init__(self, kernel_size: Any, sigma: Any = (0.1, 2.0), device: Any = 'cpu') -> None: ...

class GaussianNoise(Transform):
    """Add noise with a normal distribution to float images.

    Args:
        mean: mean of the noise.
        sigma: its standard deviation.
        clip: whether to clamp the result to the range from 0 to 1.
    """
    def __init__(self, mean: float = 0.0, sigma: float = 0.1, clip: _bool = True, device: Any = 'cpu') -> None: ...

class Grayscale(Transform):
    """Convert images to gray. An alpha channel is ignored.

    Args:
        num_output_channels: 1, or 3 for equal channels.
    """
    def __init__(self, num_output_channels: int = 1, device: Any = 'cpu') -> None: ...

class JPEG(Transform):
    """Compress uint8 images as JPEGs of random quality, and decode them.

    Args:
        quality: quality from 1 to 100, or a range (min, max).
    """
    def __init__(self, quality: Any, device: Any = 'cpu') -> None: ...

class Normalize(Transform):
    """Subtract a mean from each channel, and divide by a standard deviation. The result is float32.

    Args:
        mean: mean of each channel, or one for all.
        std: standard deviation of each channel, or one for all.
        inplace: must be False.
    """
    def __init__(self, mean: Any, std: Any, inplace: _bool = False, device: Any = 'cpu') -> None: ...

class PILToTensor(Transform):
    """Return images as tensors, CHW. PIL images become torch tensors."""
    def __init__(self, device: Any = 'cpu') -> None: ...

class Pad(Transform):
    """Pad images.

    Args:
        padding: width of all borders, (left/right, top/bottom), or (left, top, right, bottom).
        fill: value of constant padding, or one per channel.
        padding_mode: "constant", "edge" (the last pixel), "reflect" (mirrored without it) or "symmetric" (with it).
    """
    def __init__(self, padding: Any, fill: Any = 0, padding_mode: str = 'constant', device: Any = 'cpu') -> None: ...

class RGB(Transform):
    """Repeat the channel of gray images three times. PIL images lose their alpha channel, and CMYK becomes RGB."""
    def __init__(self, device: Any = 'cpu') -> None: ...

class RandAugment(Transform):
    """Apply random operations of one magnitude to uint8 images (RandAugment).

    Args:
        num_ops: number of operations.
        magnitude: index of the magnitude.
        num_magnitude_bins: number of magnitudes.
        interpolation: interpolation of warps.
        fill: value outside of warped images, or one per channel; by default black.
    """
    def __init__(
        self, num_ops: int = 2, magnitude: int = 9, num_magnitude_bins: int = 31,
        interpolation: Any = InterpolationMode.NEAREST, fill: Any = None, device: Any = 'cpu',
    ) -> None: ...

class RandomAdjustSharpness(Transform):
    """Blend images with smoothed versions, with a probability. Border pixels stay unchanged.

    Args:
        sharpness_factor: 0 for smoothed images, 1 for the images, 2 for sharper ones.
        p: probability.
    """
    def __init__(self, sharpness_factor: float, p: float = 0.5, device: Any = 'cpu') -> None: ...

class RandomAffine(Transform):
    """Rotate, move, scale and shear images randomly.

    Args:
        degrees: range of the angle, or the largest angle.
        translate: largest translation in x and y, as fractions of the extents.
        scale: range of the factor.
        shear: largest shear along x, its range, or ranges along both axes, in degrees.
        interpolation: NEAREST, BILINEAR or BICUBIC.
        fill: value outside of the images, or one per channel.
        center: fixed point (x, y); by default the centre of the image.
    """
    def __init__(
        self, degrees: Any, translate: Any = None, scale: Any = None, shear: Any = None,
        interpolation: Any = InterpolationMode.NEAREST, fill: Any = 0, center: Any = None, device: Any = 'cpu',
    ) -> None: ...

class RandomAutocontrast(Transform):
    """Stretch the values of each channel to the whole range, with a probability.

    Args:
        p: probability.
    """
    def __init__(self, p: float = 0.5, device: Any = 'cpu') -> None: ...

class RandomChannelPermutation(Transform):
    """Put the channels of images in a random order."""
    def __init__(self, device: Any = 'cpu') -> None: ...

class RandomCrop(Transform):
    """Crop a window at a random position.

    Args:
        size: (height, width), or one number for both.
        padding: padding before the crop, as in `Pad`.
        pad_if_needed: whether smaller images are padded on both sides.
        fill: value of constant padding, or one per channel.
        padding_mode: mode of padding, as in `Pad`.
    """
    def __init__(
        self, size: Any, padding: Any = None, pad_if_needed: _bool = False, fill: Any = 0,
        padding_mode: str = 'constant', device: Any = 'cpu',
    ) -> None: ...

class RandomEqualize(Transform):
    """Equalize the histogram of each channel of uint8 images, with a probability.

    Args:
        p: probability.
    """
    def __init__(self, p: float = 0.5, device: Any = 'cpu') -> None: ...

class RandomErasing(Transform):
    """Overwrite a rectangle of random position, area and aspect ratio, with a probability.

    Args:
        p: probability.
        scale: range of the area, as a fraction of the image's.
        ratio: range of the aspect ratio.
        value: value of the rectangle, one per channel, or "random" for noise with a normal distribution.
        inplace: must be False.
    """
    def __init__(
        self, p: float = 0.5, scale: Any = (0.02, 0.33), ratio: Any = (0.3, 3.3), value: Any = 0,
        inplace: _bool = False, device: Any = 'cpu',
    ) -> None: ...

class RandomGrayscale(Transform):
    """Convert images to gray, with a probability. The number of channels stays the same.

    Args:
        p: probability.
    """
    def __init__(self, p: float = 0.1, device: Any = 'cpu') -> None: ...

class RandomHorizontalFlip(Transform):
    """Mirror images left to right, with a probability.

    Args:
        p: probability.
    """
    def __init__(self, p: float = 0.5, device: Any = 'cpu') -> None: ...

class RandomInvert(Transform):
    """Invert the values of images, with a probability.

    Args:
        p: probability.
    """
    def __init__(self, p: float = 0.5, device: Any = 'cpu') -> None: ...

class RandomPerspective(Transform):
    """Move the corners of images inwards by random distances, with a probability.

    Args:
        distortion_scale: largest distance, from 0 to 1 (the centre).
        p: probability.
        interpolation: NEAREST, BILINEAR or BICUBIC.
        fill: value outside of the images, or one per channel.
    """
    def __init__(
        self, distortion_scale: float = 0.5, p: float = 0.5, interpolation: Any = InterpolationMode.BILINEAR,
        fill: Any = 0, device: Any = 'cpu',
    ) -> None: ...

class RandomPhotometricDistort(Transform):
    """Change brightness, contrast, saturation and hue by random factors, and permute channels, with a probability each.

    Args:
        brightness: range of the factor.
        contrast: range of the factor.
        saturation: range of the factor.
        hue: range of the rotation in turns.
        p: probability of each change.
    """
    def __init__(
        self, brightness: Any = (0.875, 1.125), contrast: Any = (0.5, 1.5), saturation: Any = (0.5, 1.5),
        hue: Any = (-0.05, 0.05), p: float = 0.5, device: Any = 'cpu',
    ) -> None: ...

class RandomPosterize(Transform):
    """Keep the highest bits of the values of uint8 images, with a probability.

    Args:
        bits: number of bits, from 0 to 8.
        p: probability.
    """
    def __init__(self, bits: int, p: float = 0.5, device: Any = 'cpu') -> None: ...

class RandomResize(Transform):
    """Resize images so that the shorter side has a random length.

    Args:
        min_size: smallest length.
        max_size: the length is smaller than this number.
        interpolation: interpolation.
        antialias: whether to filter along axes that shrink.
    """
    def __init__(
        self, min_size: int, max_size: int, interpolation: Any = InterpolationMode.BILINEAR,
        antialias: _bool | None = True, device: Any = 'cpu',
    ) -> None: ...

class RandomResizedCrop(Transform):
    """Crop a window with a random area and aspect ratio, and resize it.

    Args:
        size: (height, width) of the result, or one number for both.
        scale: range of the window's area, as a fraction of the image's.
        ratio: range of the window's width / height.
        interpolation: interpolation.
        antialias: whether to filter along axes that shrink.
    """
    def __init__(
        self, size: Any, scale: Any = (0.08, 1.0), ratio: Any = (0.75, 1.3333333333333333),
        interpolation: Any = InterpolationMode.BILINEAR, antialias: _bool | None = True, device: Any = 'cpu',
    ) -> None: ...

class RandomRotation(Transform):
    """Rotate images by a random angle.

    Args:
        degrees: range of the angle, or the largest angle.
        interpolation: NEAREST, BILINEAR or BICUBIC.
        expand: whether the result is large enough for the whole rotated image.
        center: fixed point (x, y); by default the centre of the image.
        fill: value outside of the images, or one per channel.
    """
    def __init__(
        self, degrees: Any, interpolation: Any = InterpolationMode.NEAREST, expand: _bool = False,
        center: Any = None, fill: Any = 0, device: Any = 'cpu',
    ) -> None: ...

class RandomShortestSize(Transform):
    """Resize images so that the shorter side has one of several lengths.

    Args:
        min_size: the lengths, or one.
        max_size: largest length of the longer side.
        interpolation: interpolation.
        antialias: whether to filter along axes that shrink.
    """
    def __init__(
        self, min_size: Any, max_size: int | None = None, interpolation: Any = InterpolationMode.BILINEAR,
        antialias: Any = True, device: Any = 'cpu',
    ) -> None: ...

class RandomSolarize(Transform):
    """Invert the values of pixels that reach a threshold, with a probability.

    Args:
        threshold: the threshold.
        p: probability.
    """
    def __init__(self, threshold: float, p: float = 0.5, device: Any = 'cpu') -> None: ...

class RandomVerticalFlip(Transform):
    """Mirror images top to bottom, with a probability.

    Args:
        p: probability.
    """
    def __init__(self, p: float = 0.5, device: Any = 'cpu') -> None: ...

class RandomZoomOut(Transform):
    """Put images at a random position on a larger canvas, with a probability.

    Args:
        fill: value of the canvas, or one per channel.
        side_range: range of the factor between the sides of the canvas and of the image.
        p: probability.
    """
    def __init__(self, fill: Any = 0, side_range: Any = (1.0, 4.0), p: float = 0.5, device: Any = 'cpu') -> None: ...

class Resize(Transform):
    """Resize images.

    Args:
        size: (height, width), or one number for the shorter side; the longer side is truncated, as in torchvision.
        interpolation: interpolation.
        max_size: largest length of the longer side. With a `size` of None, its length.
        antialias: whether to filter tensors along axes that shrink. PIL images are always filtered.
    """
    def __init__(
        self, size: Any, interpolation: Any = InterpolationMode.BILINEAR, max_size: int | None = None,
        antialias: _bool | None = True, device: Any = 'cpu',
    ) -> None: ...

class ScaleJitter(Transform):
    """Resize images to fit into a random multiple of a size.

    Args:
        target_size: the size, (height, width).
        scale_range: range of the factor.
        interpolation: interpolation.
        antialias: whether to filter along axes that shrink.
    """
    def __init__(
        self, target_size: Sequence[int], scale_range: Any = (0.1, 2.0),
        interpolation: Any = InterpolationMode.BILINEAR, antialias: _bool | None = True, device: Any = 'cpu',
    ) -> None: ...

class TenCrop(Transform):
    """Return the five crops of images, and those of the mirrored images.

    Args:
        size: (height, width) of the crops, or one number for both.
        vertical_flip: whether to mirror top to bottom, and not left to right.
    """
    def __init__(self, size: Any, vertical_flip: _bool = False, device: Any = 'cpu') -> None: ...

class ToDtype(Transform):
    """Convert images to another type.

    Args:
        dtype: the type, also as a dtype of torch.
        scale: whether to scale the values: the range of integers becomes the range from 0 to 1 of floats.
    """
    def __init__(self, dtype: Any = 'float32', scale: _bool = False, device: Any = 'cpu') -> None: ...

class ToImage(Transform):
    """Return images as tensors, CHW. PIL images become torch tensors."""
    def __init__(self, device: Any = 'cpu') -> None: ...

class ToPILImage(Transform):
    """Return images as PIL images. In a served graph, they are HWC.

    Args:
        mode: accepted for compatibility: the number of channels determines the mode.
    """
    def __init__(self, mode: str | None = None, device: Any = 'cpu') -> None: ...

class ToPureTensor(Transform):
    """Return images as tensors, CHW. PIL images become torch tensors."""
    def __init__(self, device: Any = 'cpu') -> None: ...

class ToTensor(Transform):
    """Return images as float tensors, CHW. The values of integers are scaled to the range from 0 to 1."""
    def __init__(self, device: Any = 'cpu') -> None: ...

class TrivialAugmentWide(Transform):
    """Apply one random operation of a random magnitude to uint8 images (TrivialAugment, wide ranges).

    Args:
        num_magnitude_bins: number of magnitudes.
        interpolation: interpolation of warps.
        fill: value outside of warped images, or one per channel; by default black.
    """
    def __init__(
        self, num_magnitude_bins: int = 31, interpolation: Any = InterpolationMode.NEAREST, fill: Any = None,
        device: Any = 'cpu',
    ) -> None: ...

