"""Automatic augmentation with the ranges of torchvision: AutoAugment, RandAugment, TrivialAugment and AugMix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from dali_proxy.pipeline._dynamic.calling import subscript
from dali_proxy.pipeline._torchvision import color, geometry
from dali_proxy.pipeline._torchvision.arguments import InterpolationMode
from dali_proxy.pipeline._torchvision.control import chance, integers, switch, uniform
from dali_proxy.pipeline._torchvision.declaration import transform
from dali_proxy.pipeline._torchvision.images import Image, ops
from dali_proxy.pipeline.auto_aug import policies
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError


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


class _How(NamedTuple):
    """How operations warp: the interpolation, the value outside, and whether translations are fractions of extents."""

    interpolation: Any
    fill: Any
    relative: bool


def _warped(image: Image, how: _How, b: Any = 0.0, c: Any = 0.0, x: Any = 0.0, y: Any = 0.0) -> Image:
    matrix = [1.0, b, x, c, 1.0, y, 0.0, 0.0, 1.0]
    return geometry.warp(image, matrix, how.interpolation, how.fill)


def _pixels(image: Image, distance: Any, axis: int, how: _How) -> Any:
    """Return a translation in pixels, truncated."""
    if not how.relative:
        return distance
    moved = distance * image.size()[axis]
    return ops.math.floor(ops.math.fabs(moved) + 1e-4) * (1.0 - (moved < 0.0) * 2.0)


#: Operations: functions of images, a parameter and `_How`, in the order of their indices.
_OPERATIONS: dict[str, Callable[[Image, Any, _How], Image]] = {
    "identity": lambda image, m, how: image,
    "shear_x": lambda image, m, how: _warped(image, how, b=m),
    "shear_y": lambda image, m, how: _warped(image, how, c=m),
    "translate_x": lambda image, m, how: _warped(image, how, x=_pixels(image, m, 1, how)),
    "translate_y": lambda image, m, how: _warped(image, how, y=_pixels(image, m, 0, how)),
    "rotate": lambda image, m, how: geometry.rotate(image, m, how.interpolation, False, None, how.fill),
    "brightness": lambda image, m, how: color.adjust_brightness(image, m),
    "color": lambda image, m, how: color.adjust_saturation(image, m),
    "contrast": lambda image, m, how: color.adjust_contrast(image, m),
    "sharpness": lambda image, m, how: color.adjust_sharpness(image, m),
    "posterize": lambda image, m, how: color.posterize(image, m),
    "solarize": lambda image, m, how: color.solarize(image, m),
    "auto_contrast": lambda image, m, how: color.autocontrast(image),
    "equalize": lambda image, m, how: color.equalize(image),
    "invert": lambda image, m, how: color.invert(image),
}
_NAMES = list(_OPERATIONS)
_FACTORS = ("brightness", "color", "contrast", "sharpness")
_FRACTION = 150.0 / 331.0
_NARROW = {"shear_x": 0.3, "shear_y": 0.3, "translate_x": _FRACTION, "translate_y": _FRACTION, "rotate": 30.0}
_WIDE = {"shear_x": 0.99, "shear_y": 0.99, "translate_x": 32.0, "translate_y": 32.0, "rotate": 135.0}


def _parameters(bins: int, warps: Mapping[str, float], factor: float, bits: int) -> np.ndarray[Any, Any]:
    """Return the parameters of the operations: by operation, bin, and whether the magnitude is negated.

    Args:
        bins: number of magnitudes.
        warps: largest magnitudes of warps.
        factor: largest magnitude of the operations that multiply.
        bits: largest number of bits that posterize removes.
    """
    steps = np.linspace(0.0, 1.0, bins)
    table = np.zeros((len(_NAMES), bins, 2), np.float32)
    for name in (*warps, *_FACTORS):
        sizes = steps * warps.get(name, factor)
        if warps.get(name, 0.0) > 1 and name != "rotate":
            sizes = np.trunc(sizes)  # pixels
        table[_NAMES.index(name)] = np.stack([sizes, -sizes], axis=1) + (name in _FACTORS)
    table[_NAMES.index("posterize")] = (8 - np.round(steps * bits))[:, None]
    table[_NAMES.index("solarize")] = (255 * (1 - steps))[:, None]
    return table


def _lookup(table: np.ndarray[Any, Any], *indices: Any) -> Any:
    return subscript(ops.as_tensor(table), indices)


def _applied(image: Image, operation: Any, parameter: Any, how: _How) -> Image:
    """Apply one operation to each image.

    Raises:
        ArgumentTypeError: the images aren't uint8.
    """
    if image.dtype != "uint8":
        raise ArgumentTypeError(f"automatic augmentation needs uint8 images, not {image.dtype}: use it before ToTensor")
    steps = [lambda image, m, step=step: step(image, m, how) for step in _OPERATIONS.values()]
    return switch(operation, steps, image, parameter)


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
    table = _parameters(10, _NARROW, 0.9, 4)
    chosen = integers(image, len(policy))
    for stage in range(2):
        steps = [sub[stage] if stage < len(sub) else ("identity", 1.0, 0) for sub in policy]
        numbers = np.array([_NAMES.index(name) for name, *_ in steps], np.int32)
        limits = np.array([probability for _, probability, _ in steps], np.float32)
        parameters = np.stack([table[number, step[2] or 0] for number, step in zip(numbers, steps, strict=True)])
        happens = ops.cast(uniform(image, 0, 1) < _lookup(limits, chosen), dtype=ops.int32)
        negated = chance(image, 0.5)
        operation = _lookup(numbers, chosen) * happens
        image = _applied(image, operation, _lookup(parameters, chosen, negated), _How(interpolation, fill, True))
    return image


_WITHOUT_INVERT = len(_NAMES) - 1


def _check_magnitude(magnitude: int, num_magnitude_bins: int, **_: Any) -> None:
    if not 0 <= magnitude < num_magnitude_bins:
        raise ArgumentValueError(
            f"magnitude must be from 0 to num_magnitude_bins - 1 = {num_magnitude_bins - 1}, got {magnitude}"
        )


@transform(check=_check_magnitude)
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
    table = _parameters(num_magnitude_bins, _NARROW, 0.9, 4)[:, magnitude]
    for _ in range(num_ops):
        operation = integers(image, _WITHOUT_INVERT)
        parameter = _lookup(table, operation, chance(image, 0.5))
        image = _applied(image, operation, parameter, _How(interpolation, fill, True))
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
    table = _parameters(num_magnitude_bins, _WIDE, 0.99, 6)
    operation = integers(image, _WITHOUT_INVERT)
    parameter = _lookup(table, operation, integers(image, num_magnitude_bins), chance(image, 0.5))
    return _applied(image, operation, parameter, _How(interpolation, fill, False))


_OF_AUGMIX = [name for name in _NAMES if name not in ("identity", "invert")]


def _positive(name: str, value: Any) -> Any:
    if value <= 0:
        raise ArgumentValueError(f"{name} must be positive, got {value}")
    return value


def _severity(name: str, value: Any) -> int:
    if not 1 <= value <= 10:
        raise ArgumentValueError(f"{name} must be from 1 to 10, got {value}")
    return int(value)


def _weights(image: Image, count: int, alpha: float) -> list[Any]:
    """Draw numbers with a sum of 1 from a symmetric Dirichlet distribution, for each image.

    Each one takes a fraction, drawn from a beta distribution, of what the ones before it left.
    """
    left, weights = 1.0, []
    for others in range(count - 1, 0, -1):
        part = ops.random.beta(alpha=alpha, beta=alpha * others, batch_size=image.batch_size)
        weights.append(part * left)
        left = (1.0 - part) * left
    return [*weights, left]


@transform("AugMix", severity=_severity, mixture_width=_positive, alpha=_positive)
def augmix(
    image: Image,
    severity: int = 3,
    mixture_width: int = 3,
    chain_depth: int = -1,
    alpha: float = 1.0,
    all_ops: bool = True,
    interpolation: Any = InterpolationMode.BILINEAR,
    fill: Any = None,
) -> Image:
    """Mix uint8 images with the results of several chains of random operations (AugMix).

    Args:
        image: images.
        severity: number of magnitudes, from 1 to 10; the weakest ones are taken.
        mixture_width: number of chains.
        chain_depth: number of operations of a chain; by default random, from 1 to 3.
        alpha: parameter of the distributions of the weights.
        all_ops: whether to use brightness, color, contrast and sharpness.
        interpolation: interpolation of warps.
        fill: value outside of warped images, or one per channel; by default black.
    """
    names = [name for name in _OF_AUGMIX if all_ops or name not in _FACTORS]
    numbers = np.array([_NAMES.index(name) for name in names], np.int32)
    table = _parameters(10, {**_NARROW, "translate_x": 1 / 3, "translate_y": 1 / 3}, 0.9, 4)
    table[_NAMES.index("posterize")] -= 4
    own, others = _weights(image, 2, alpha)
    mixed = image.data * image.beside(own)
    for weight in _weights(image, mixture_width, alpha):
        changed = image
        depth = integers(image, 3) + 1 if chain_depth <= 0 else chain_depth
        for step in range(3 if chain_depth <= 0 else chain_depth):
            happens = ops.cast(depth > step, dtype=ops.int32) if chain_depth <= 0 else 1
            operation = _lookup(numbers, integers(image, len(numbers))) * happens
            parameter = _lookup(table, operation, integers(image, severity), chance(image, 0.5))
            changed = _applied(changed, operation, parameter, _How(interpolation, fill, True))
        mixed = mixed + changed.data * image.beside(weight * others)
    return image.rounded(mixed)


AugMix, AutoAugment, RandAugment, TrivialAugmentWide = augmix, auto_augment, rand_augment, trivial_augment_wide
