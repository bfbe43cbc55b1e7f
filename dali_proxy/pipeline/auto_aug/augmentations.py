"""The operations of AutoAugment, RandAugment and TrivialAugment, for UINT8 images and sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._graph import DataNode, as_node
from dali_proxy.pipeline.auto_aug.core.augmentation import Augmentation, augmentation
from dali_proxy.pipeline.auto_aug.core.magnitudes import apply
from dali_proxy.pipeline.errors import ArgumentValueError

__all__ = [
    "auto_contrast",
    "brightness",
    "color",
    "contrast",
    "equalize",
    "identity",
    "invert",
    "poster_mask_uint8",
    "posterize",
    "rotate",
    "sharpness",
    "sharpness_kernel",
    "sharpness_kernel_shifted",
    "shear_x",
    "shear_y",
    "shift_enhance_range",
    "solarize",
    "solarize_add",
    "solarize_add_shift",
    "translate_x",
    "translate_x_no_shape",
    "translate_y",
    "translate_y_no_shape",
    "translations",
    "warp_x_param",
    "warp_y_param",
]

Array = npt.NDArray[Any]
# `pipeline._kernels.byte_map.Rule`
_EQUALIZATION, _AUTO_CONTRAST, _CONTRAST = range(3)


# Parameters ---------------------------------------------------------------------------------------------------------


def warp_x_param(magnitude: float) -> Any:
    """Return the offset or shear along x, as (x, y)."""
    return [magnitude, 0]


def warp_y_param(magnitude: float) -> Any:
    """Return the offset or shear along y, as (x, y)."""
    return [0, magnitude]


def shift_enhance_range(magnitude: float) -> Any:
    """Return the factor of an enhancement; the factor 1 changes nothing."""
    return 1 + magnitude


def sharpness_kernel(magnitude: float) -> Array:
    """Return the 3 by 3 kernel that sharpens, or blurs for negative magnitudes."""
    blur = np.array([[1, 1, 1], [1, 5, 1], [1, 1, 1]], np.float32) / 13
    ident = np.zeros((3, 3), np.float32)
    ident[1, 1] = 1
    kernel: Array = (-magnitude * blur + (1 + magnitude) * ident).astype(np.float32)
    return kernel


def sharpness_kernel_shifted(magnitude: float) -> Array:
    """Return the kernel for a magnitude where 1 changes nothing."""
    return sharpness_kernel(magnitude - 1)


def poster_mask_uint8(magnitude: float) -> Array:
    """Return the mask of the highest bits; at least one bit."""
    bits = min(8, max(1, round(magnitude)))
    return np.array(np.uint8(256 - (1 << (8 - bits))))


def solarize_add_shift(shift: float) -> Any:
    """Return the number to add to dark values.

    Raises:
        ArgumentValueError: the shift isn't from 0 to below 128.
    """
    if not 0 <= shift < 128:
        raise ArgumentValueError(f"solarize_add takes shifts from 0 to 128, not {shift}")
    return np.uint8(shift)


# Geometry -----------------------------------------------------------------------------------------------------------


def _warp(data: Any, matrix: Any, fill_value: Any, interp_type: Any) -> DataNode:
    arguments = {"matrix": matrix, "fill_value": fill_value, "interp_type": interp_type, "inverse_map": False}
    return apply("warp_affine", data, **arguments)


def _shear(data: Any, shear: Any, fill_value: Any, interp_type: Any) -> DataNode:
    return _warp(data, apply("transforms.shear", shear=shear), fill_value, interp_type)


def _translate(data: Any, offset: Any, fill_value: Any, interp_type: Any) -> DataNode:
    return _warp(data, apply("transforms.translation", offset=offset), fill_value, interp_type)


@augmentation(mag_range=(0, 0.3), randomly_negate=True, mag_to_param=warp_x_param)
def shear_x(data: Any, shear: Any, fill_value: Any = 128, interp_type: Any = None) -> DataNode:
    """Shear along x, about the corner."""
    return _shear(data, shear, fill_value, interp_type)


@augmentation(mag_range=(0, 0.3), randomly_negate=True, mag_to_param=warp_y_param)
def shear_y(data: Any, shear: Any, fill_value: Any = 128, interp_type: Any = None) -> DataNode:
    """Shear along y, about the corner."""
    return _shear(data, shear, fill_value, interp_type)


@augmentation(mag_range=(0.0, 1.0), randomly_negate=True, mag_to_param=warp_x_param)
def translate_x(data: Any, rel_offset: Any, shape: Any, fill_value: Any = 128, interp_type: Any = None) -> DataNode:
    """Move along x by a fraction of the width."""
    return _translate(data, rel_offset * shape[1], fill_value, interp_type)


@augmentation(mag_range=(0, 250), randomly_negate=True, mag_to_param=warp_x_param, name="translate_x")
def translate_x_no_shape(data: Any, offset: Any, fill_value: Any = 128, interp_type: Any = None) -> DataNode:
    """Move along x by pixels."""
    return _translate(data, offset, fill_value, interp_type)


@augmentation(mag_range=(0.0, 1.0), randomly_negate=True, mag_to_param=warp_y_param)
def translate_y(data: Any, rel_offset: Any, shape: Any, fill_value: Any = 128, interp_type: Any = None) -> DataNode:
    """Move along y by a fraction of the height."""
    return _translate(data, rel_offset * shape[0], fill_value, interp_type)


@augmentation(mag_range=(0, 250), randomly_negate=True, mag_to_param=warp_y_param, name="translate_y")
def translate_y_no_shape(data: Any, offset: Any, fill_value: Any = 128, interp_type: Any = None) -> DataNode:
    """Move along y by pixels."""
    return _translate(data, offset, fill_value, interp_type)


@augmentation(mag_range=(0, 30), randomly_negate=True)
def rotate(
    data: Any, angle: Any, fill_value: Any = 128, interp_type: Any = None, rotate_keep_size: bool = True
) -> DataNode:
    """Rotate by degrees."""
    arguments = {"fill_value": fill_value, "interp_type": interp_type, "keep_size": rotate_keep_size}
    return apply("rotate", data, angle=angle, **arguments)


# Colour -------------------------------------------------------------------------------------------------------------


@augmentation(mag_range=(0, 0.9), randomly_negate=True, mag_to_param=shift_enhance_range)
def brightness(data: Any, parameter: Any) -> DataNode:
    """Multiply values by a factor."""
    return apply("brightness", data, brightness=parameter)


@augmentation(mag_range=(0, 0.9), randomly_negate=True, mag_to_param=shift_enhance_range)
def contrast(data: Any, parameter: Any) -> DataNode:
    """Scale differences from the mean brightness of the image, as Pillow does."""
    return _map_by_histogram(data, _CONTRAST, parameter)


@augmentation(mag_range=(0, 0.9), randomly_negate=True, mag_to_param=shift_enhance_range)
def color(data: Any, parameter: Any) -> DataNode:
    """Scale the saturation."""
    return apply("saturation", data, saturation=parameter)


@augmentation(mag_range=(0, 0.9), randomly_negate=True, mag_to_param=sharpness_kernel, param_device="auto")
def sharpness(data: Any, kernel: Any) -> DataNode:
    """Sharpen or blur, as Pillow does, except for the outermost pixels, which Pillow leaves unchanged."""
    return apply("filter", data, _on_host(kernel))


@augmentation(mag_range=(0, 4), mag_to_param=poster_mask_uint8, param_device="auto")
def posterize(data: Any, mask: Any) -> DataNode:
    """Keep the highest bits."""
    return _map(data, "posterize", mask)


@augmentation(mag_range=(256, 0), param_device="auto")
def solarize(data: Any, threshold: Any) -> DataNode:
    """Invert values at or above a threshold."""
    return _map(data, "solarize", threshold)


@augmentation(mag_range=(0, 110), mag_to_param=solarize_add_shift, param_device="auto")
def solarize_add(data: Any, shift: Any) -> DataNode:
    """Add to values below 128."""
    return _map(data, "solarize_add", shift)


@augmentation
def invert(data: Any, _: Any) -> DataNode:
    """Subtract values from 255."""
    return _map(data, "invert", None)


@augmentation
def equalize(data: Any, _: Any) -> DataNode:
    """Equalize histograms, as OpenCV does; the tables of Pillow differ slightly."""
    return _map_by_histogram(data, _EQUALIZATION, 1.0)


@augmentation
def auto_contrast(data: Any, _: Any) -> DataNode:
    """Stretch each channel to the range from 0 to 255."""
    return _map_by_histogram(data, _AUTO_CONTRAST, 1.0)


@augmentation
def identity(data: Any, _: Any) -> Any:
    """Change nothing."""
    return data


def translations(
    use_shape: bool,
    default_translate_abs: int,
    default_translate_rel: float,
    max_translate_abs: Any = None,
    max_translate_rel: Any = None,
) -> tuple[Augmentation, Augmentation]:
    """Return translations along x and y.

    Args:
        use_shape: whether magnitudes are fractions of the extents of the image, instead of pixels.
        default_translate_abs: default of `max_translate_abs`.
        default_translate_rel: default of `max_translate_rel`.
        max_translate_abs: largest magnitude in pixels, or two, for height and width.
        max_translate_rel: largest magnitude as a fraction, or two, for height and width.

    Raises:
        ArgumentValueError: the limit is in pixels with `use_shape`, or a fraction without it.
    """
    if use_shape and max_translate_abs is not None:
        raise ArgumentValueError("`max_translate_abs` can't be used with image shapes: use `max_translate_rel`")
    if not use_shape and max_translate_rel is not None:
        raise ArgumentValueError("`max_translate_rel` can't be used without image shapes: use `max_translate_abs`")
    along_x, along_y = (translate_x, translate_y) if use_shape else (translate_x_no_shape, translate_y_no_shape)
    most = max_translate_rel if use_shape else max_translate_abs
    if most is None:
        most = default_translate_rel if use_shape else default_translate_abs
    height, width = most if isinstance(most, tuple | list) else (most, most)
    return along_x.augmentation(mag_range=(0, width)), along_y.augmentation(mag_range=(0, height))


def _map(data: Any, operation: str, parameter: Any) -> DataNode:
    return apply("byte_map", data, operation=operation, parameter=_on_host(parameter))


def _map_by_histogram(data: Any, rule: int, parameter: Any) -> DataNode:
    """Map values by a rule for each sample, so that branches with different rules are equal operators."""
    rules, parameters = as_node(np.int32(rule), "a rule"), as_node(_on_host(parameter), "a parameter")
    return apply("byte_map", data, operation="histogram", rule=rules, parameter=parameters)


def _on_host(parameter: Any) -> Any:
    """Return a parameter on the CPU, if possible its source before the copy: a launch can carry small parameters."""
    if not isinstance(parameter, DataNode) or parameter.device == "cpu":
        return parameter
    source = parameter.source
    copied = source is not None and source.schema.name == "copy_to_gpu"
    return source.inputs[0] if source is not None and copied else parameter.cpu()
