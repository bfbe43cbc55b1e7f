# Written by `python -m docs.stubs`.

"""Transforms as functions: of PIL images, torch tensors, and tensors and batches of dynamic mode.

Example:
    >>> from PIL import Image
    >>> from dali_proxy.torchvision import functional
    >>> functional.resize(Image.new("RGB", (80, 60)), 20).size
    (26, 20)"""

from builtins import bool as _bool
from typing import Any, TypeVar
from dali_proxy.pipeline._torchvision.arguments import InterpolationMode

from dali_proxy.pipeline._torchvision.conversion import get_dimensions as get_dimensions
from dali_proxy.pipeline._torchvision.conversion import get_image_size as get_image_size
from dali_proxy.pipeline._torchvision.conversion import get_size as get_size
from dali_proxy.pipeline._torchvision.conversion import pil_to_tensor as pil_to_tensor
from dali_proxy.pipeline._torchvision.conversion import to_image as to_image
from dali_proxy.pipeline._torchvision.conversion import to_pil_image as to_pil_image
from dali_proxy.pipeline._torchvision.conversion import to_tensor as to_tensor

_T = TypeVar("_T")

__all__ = [
    'adjust_brightness', 'adjust_contrast', 'adjust_hue', 'adjust_saturation', 'adjust_sharpness', 'affine',
    'autocontrast', 'center_crop', 'crop', 'elastic', 'equalize', 'erase', 'five_crop', 'gaussian_blur',
    'gaussian_noise', 'get_dimensions', 'get_image_size', 'get_size', 'grayscale_to_rgb', 'horizontal_flip',
    'invert', 'jpeg', 'normalize', 'pad', 'perspective', 'pil_to_tensor', 'posterize', 'resize',
    'resized_crop', 'rgb_to_grayscale', 'rotate', 'solarize', 'ten_crop', 'to_dtype', 'to_grayscale',
    'to_image', 'to_pil_image', 'to_tensor', 'vertical_flip',
]

def adjust_brightness(inpt: _T, brightness_factor: float, device: Any = 'cpu') -> _T:
    """Multiply the values of images by a factor."""

def adjust_contrast(inpt: _T, contrast_factor: float, device: Any = 'cpu') -> _T:
    """Blend images with their mean luminance."""

def adjust_hue(inpt: _T, hue_factor: float, device: Any = 'cpu') -> _T:
    """Rotate the hues of images, in the HSV color space."""

def adjust_saturation(inpt: _T, saturation_factor: float, device: Any = 'cpu') -> _T:
    """Blend images with their gray versions."""

def adjust_sharpness(inpt: _T, sharpness_factor: float, device: Any = 'cpu') -> _T:
    """Blend images with smoothed versions. Border pixels stay unchanged."""

def affine(
    inpt: _T, angle: float, translate: Any, scale: float, shear: Any,
    interpolation: Any = InterpolationMode.NEAREST, fill: Any = 0, center: Any = None, device: Any = 'cpu',
) -> _T:
    """Rotate, shear, scale and move images."""

def autocontrast(inpt: _T, device: Any = 'cpu') -> _T:
    """Stretch the values of each channel to the whole range."""

def center_crop(inpt: _T, output_size: Any, device: Any = 'cpu') -> _T:
    """Crop the centre of images. Smaller images are padded with black."""

def crop(inpt: _T, top: int, left: int, height: int, width: int, device: Any = 'cpu') -> _T:
    """Crop a window out of images. Pixels outside of them are black."""

def elastic(
    inpt: _T, displacement: Any, interpolation: Any = InterpolationMode.BILINEAR, fill: Any = 0,
    device: Any = 'cpu',
) -> _T:
    """Move the pixels of images."""

def equalize(inpt: _T, device: Any = 'cpu') -> _T:
    """Equalize the histogram of each channel of uint8 images."""

def erase(inpt: _T, i: int, j: int, h: int, w: int, v: Any = 0, inplace: _bool = False, device: Any = 'cpu') -> _T:
    """Overwrite a rectangle of images."""

def five_crop(inpt: _T, size: Any, device: Any = 'cpu') -> tuple[_T, ...]:
    """Return the crops of the corners (top left, top right, bottom left, bottom right) and of the centre."""

def gaussian_blur(inpt: _T, kernel_size: Any, sigma: Any = None, device: Any = 'cpu') -> _T:
    """Blur images with a Gaussian kernel. Borders are reflected."""

def gaussian_noise(inpt: _T, mean: float = 0.0, sigma: float = 0.1, clip: _bool = True, device: Any = 'cpu') -> _T:
    """Add noise with a normal distribution to float images."""

def grayscale_to_rgb(inpt: _T, device: Any = 'cpu') -> _T:
    """Repeat the channel of gray images three times. PIL images lose their alpha channel, and CMYK becomes RGB."""

def horizontal_flip(inpt: _T, device: Any = 'cpu') -> _T:
    """Mirror images left to right."""

def invert(inpt: _T, device: Any = 'cpu') -> _T:
    """Invert the values of images."""

def jpeg(inpt: _T, quality: int, device: Any = 'cpu') -> _T:
    """Compress uint8 images as JPEGs and decode them."""

def normalize(inpt: _T, mean: Any, std: Any, inplace: _bool = False, device: Any = 'cpu') -> _T:
    """Subtract a mean from each channel, and divide by a standard deviation. The result is float32."""

def pad(inpt: _T, padding: Any, fill: Any = 0, padding_mode: str = 'constant', device: Any = 'cpu') -> _T:
    """Pad images."""

def perspective(
    inpt: _T, startpoints: Any, endpoints: Any, interpolation: Any = InterpolationMode.BILINEAR,
    fill: Any = 0, coefficients: Any = None, device: Any = 'cpu',
) -> _T:
    """Warp images so that four points move to four other points."""

def posterize(inpt: _T, bits: int, device: Any = 'cpu') -> _T:
    """Keep the highest bits of the values of uint8 images."""

def resize(
    inpt: _T, size: Any, interpolation: Any = InterpolationMode.BILINEAR, max_size: int | None = None,
    antialias: _bool | None = True, device: Any = 'cpu',
) -> _T:
    """Resize images."""

def resized_crop(
    inpt: _T, top: int, left: int, height: int, width: int, size: Any,
    interpolation: Any = InterpolationMode.BILINEAR, antialias: _bool | None = True, device: Any = 'cpu',
) -> _T:
    """Crop a window out of images and resize it."""

def rgb_to_grayscale(inpt: _T, num_output_channels: int = 1, device: Any = 'cpu') -> _T:
    """Convert images to gray. An alpha channel is ignored."""

def rotate(
    inpt: _T, angle: float, interpolation: Any = InterpolationMode.NEAREST, expand: _bool = False,
    center: Any = None, fill: Any = 0, device: Any = 'cpu',
) -> _T:
    """Rotate images counter-clockwise."""

def solarize(inpt: _T, threshold: float, device: Any = 'cpu') -> _T:
    """Invert the values of pixels that reach a threshold."""

def ten_crop(inpt: _T, size: Any, vertical_flip: _bool = False, device: Any = 'cpu') -> tuple[_T, ...]:
    """Return the five crops of images, and those of the mirrored images."""

def to_dtype(inpt: _T, dtype: Any = 'float32', scale: _bool = False, device: Any = 'cpu') -> _T:
    """Convert images to another type."""

to_grayscale = rgb_to_grayscale

def vertical_flip(inpt: _T, device: Any = 'cpu') -> _T:
    """Mirror images top to bottom."""

