"""Automatic augmentation with the ranges of torchvision: AutoAugment, RandAugment and TrivialAugment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

import numpy as np

from pipeline._dynamic.calling import subscript
from pipeline._torchvision import color, geometry
from pipeline._torchvision.arguments import InterpolationMode
from pipeline._torchvision.control import integers, switch, uniform
from pipeline._torchvision.declaration import transform
from pipeline._torchvision.images import Image, ops
from pipeline.auto_aug import policies
from pipeline.errors import ArgumentValueError

__all__ = ["AutoAugment", "AutoAugmentPolicy", "RandAugment", "TrivialAugmentWide"]


class AutoAugmentPolicy(Enum):
    """The policies of `AutoAugment`."""

    IMAGENET = "imagenet"
    CIFAR10 = "cifar10"
    SVHN = "svhn"


_POLICIES = {
    "imagenet": policies.get_reduced_image_net_policy,
    "cifar10": policies.get_reduced_cifar10_policy,
    "svhn": policies.get_svhn_policy,
}


def _move(image: Image, matrix: Sequence[Any], interpolation: Any, fill: Any) -> Image:
    return geometry.warp(image, matrix, interpolation, fill)


#: Operations: functions of images, a magnitude, an interpolation and a fill value, in the order of their indices.
_OPERATIONS: dict[str, Callable[[Image, Any, Any, Any], Image]] = {
    "identity": lambda image, m, *_: image,
    "shear_x": lambda image, m, *how: _move(image, [1.0, m * -1.0, 0.0, 0.0, 1.0, 0.0], *how),
    "shear_y": lambda image, m, *how: _move(image, [1.0, 0.0, 0.0, m * -1.0, 1.0, 0.0], *how),
    "translate_x": lambda image, m, *how: _move(image, [1.0, 0.0, m, 0.0, 1.0, 0.0], *how),
    "translate_y": lambda image, m, *how: _move(image, [1.0, 0.0, 0.0, 0.0, 1.0, m], *how),
    "rotate": lambda image, m, interpolation, fill: geometry.rotate(image, m, interpolation, False, None, fill),
    "brightness": lambda image, m, *_: color.adjust_brightness(image, m + 1.0),
    "color": lambda image, m, *_: color.adjust_saturation(image, m + 1.0),
    "contrast": lambda image, m, *_: color.adjust_contrast(image, m + 1.0),
    "sharpness": lambda image, m, *_: color.adjust_sharpness(image, m + 1.0),
    "posterize": lambda image, m, *_: color.posterize(image, m),
    "solarize": lambda image, m, *_: color.solarize(image, m * image.bound),
    "auto_contrast": lambda image, m, *_: color.autocontrast(image),
    "equalize": lambda image, m, *_: color.equalize(image),
    "invert": lambda image, m, *_: color.invert(image),
}
_NAMES = list(_OPERATIONS)
_SIGNED = np.array([1.0] + [-1.0] * 9 + [1.0] * 5, np.float32)  # the sign that half of the magnitudes get


def _space(bins: int, warps: Mapping[str, float], factor: float, bits: int) -> np.ndarray[Any, Any]:
    """Return the magnitudes: one row per operation, one column per bin. Translations may be fractions."""
    ranges = {**warps, **dict.fromkeys(("brightness", "color", "contrast", "sharpness"), factor)}
    steps = np.linspace(0.0, 1.0, bins) if bins > 1 else np.zeros(1)
    rows = np.array([steps * ranges.get(name, 0.0) for name in _NAMES], np.float32)
    rows[_NAMES.index("posterize")] = 8 - np.round(steps * bits)
    rows[_NAMES.index("solarize")] = 1 - steps
    return rows


_FRACTION = 150.0 / 331.0
_NARROW = {"shear_x": 0.3, "shear_y": 0.3, "translate_x": _FRACTION, "translate_y": _FRACTION, "rotate": 30.0}
_WIDE = {"shear_x": 0.99, "shear_y": 0.99, "translate_x": 32.0, "translate_y": 32.0, "rotate": 135.0}


def _applied(image: Image, operation: Any, magnitude: Any, relative: bool, interpolation: Any, fill: Any) -> Image:
    """Apply one operation to each image, with the magnitude or, for some operations, its negative.

    Args:
        image: images.
        operation: index of the operation.
        magnitude: its magnitude.
        relative: whether translations are fractions of the extents.
        interpolation: interpolation of warps.
        fill: value outside of warped images.
    """
    negative = uniform(image, 0, 1) < 0.5
    magnitude = magnitude * (1.0 + (_lookup(_SIGNED, operation) - 1.0) * negative)
    if relative:
        height, width = image.size()
        for name, extent in (("translate_x", width), ("translate_y", height)):
            magnitude = magnitude * (1.0 + (extent - 1.0) * _is(operation, name))
    steps = [lambda image, m, step=step: step(image, m, interpolation, fill) for step in _OPERATIONS.values()]
    return switch(operation, steps, image, _whole(magnitude, operation))


def _whole(magnitude: Any, operation: Any) -> Any:
    """Truncate translations to pixels."""
    moves = _is(operation, "translate_x") + _is(operation, "translate_y")
    truncated = ops.math.floor(ops.math.fabs(magnitude) + 1e-4) * (1.0 - (magnitude < 0.0) * 2.0)
    return magnitude + (truncated - magnitude) * moves


def _is(operation: Any, name: str) -> Any:
    """Return 1.0 for images that get an operation, otherwise 0.0."""
    return (operation == _NAMES.index(name)) * 1.0


def _lookup(table: np.ndarray[Any, Any], *indices: Any) -> Any:
    return subscript(ops.as_tensor(table), indices)


def _policy(name: str, value: Any) -> Any:
    """Return the sequences of operations of a policy."""
    key = getattr(value, "value", value)
    if key not in _POLICIES:
        raise ArgumentValueError(f"{name} must be one of {list(AutoAugmentPolicy)}, got {value!r}")
    return [[(operation.name, p, bin_) for operation, p, bin_ in sub] for sub in _POLICIES[key]().sub_policies]


@transform(policy=_policy)
def auto_augment(
    image: Image,
    policy: Any = AutoAugmentPolicy.IMAGENET,
    interpolation: Any = InterpolationMode.NEAREST,
    fill: Any = None,
) -> Image:
    """Apply one of the sequences of operations of a policy of AutoAugment to uint8 images.

    Args:
        image: images.
        policy: "imagenet", "cifar10" or "svhn".
        interpolation: interpolation of warps.
        fill: value outside of warped images, or one per channel; by default black.
    """
    space = _space(10, _NARROW, 0.9, 4)
    steps: Any = [[*sub, ("identity", 0.0, None)][:2] for sub in policy]
    chosen = integers(image, len(steps))
    for stage in range(2):
        names = np.array([_NAMES.index(sub[stage][0]) for sub in steps], np.int32)
        limits = np.array([sub[stage][1] for sub in steps], np.float32)
        sizes = np.array(
            [space[index, sub[stage][2] or 0] for index, sub in zip(names, steps, strict=True)], np.float32
        )
        happens = ops.cast(uniform(image, 0, 1) < _lookup(limits, chosen), dtype=ops.int32)
        operation = _lookup(names, chosen) * happens
        image = _applied(image, operation, _lookup(sizes, chosen), True, interpolation, fill)
    return image


_WITHOUT_INVERT = len(_NAMES) - 1


@transform()
def rand_augment(
    image: Image,
    num_ops: int = 2,
    magnitude: int = 9,
    num_magnitude_bins: int = 31,
    interpolation: Any = InterpolationMode.NEAREST,
    fill: Any = None,
) -> Image:
    """Apply random operations of one magnitude to uint8 images (RandAugment).

    Args:
        image: images.
        num_ops: number of operations.
        magnitude: index of the magnitude.
        num_magnitude_bins: number of magnitudes.
        interpolation: interpolation of warps.
        fill: value outside of warped images, or one per channel; by default black.
    """
    sizes = _space(num_magnitude_bins, _NARROW, 0.9, 4)[:, magnitude]
    for _ in range(num_ops):
        operation = integers(image, _WITHOUT_INVERT)
        image = _applied(image, operation, _lookup(sizes, operation), True, interpolation, fill)
    return image


@transform()
def trivial_augment_wide(
    image: Image,
    num_magnitude_bins: int = 31,
    interpolation: Any = InterpolationMode.NEAREST,
    fill: Any = None,
) -> Image:
    """Apply one random operation of a random magnitude to uint8 images (TrivialAugment, wide ranges).

    Args:
        image: images.
        num_magnitude_bins: number of magnitudes.
        interpolation: interpolation of warps.
        fill: value outside of warped images, or one per channel; by default black.
    """
    operation, bin_ = integers(image, _WITHOUT_INVERT), integers(image, num_magnitude_bins)
    size = _lookup(_space(num_magnitude_bins, _WIDE, 0.99, 6), operation, bin_)
    return _applied(image, operation, size, False, interpolation, fill)


AutoAugment, RandAugment, TrivialAugmentWide = auto_augment, rand_augment, trivial_augment_wide
