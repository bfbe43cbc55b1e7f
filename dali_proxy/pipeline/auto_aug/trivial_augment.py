"""TrivialAugment (https://arxiv.org/abs/2103.10158): for each sample, one operation of random magnitude."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dali_proxy.pipeline.auto_aug import augmentations as a
from dali_proxy.pipeline.auto_aug.core import Augmentation, select, signed_bin
from dali_proxy.pipeline.auto_aug.core.choice import refuse_unused
from dali_proxy.pipeline.auto_aug.core.magnitudes import seeds
from dali_proxy.pipeline.auto_aug.suites import apply_suite, draw, options, without
from dali_proxy.pipeline.errors import ArgumentValueError

__all__ = ["apply_trivial_augment", "get_trivial_augment_wide_suite", "trivial_augment_wide"]


def trivial_augment_wide(
    data: Any,
    num_magnitude_bins: int = 31,
    shape: Any = None,
    fill_value: int | None = 128,
    interp_type: Any = None,
    max_translate_abs: Any = None,
    max_translate_rel: Any = None,
    seed: int | None = None,
    excluded: Sequence[str] | None = None,
) -> Any:
    """Apply TrivialAugment with the wide ranges.

    Args:
        data: UINT8 images (HWC) or sequences (FHWC).
        num_magnitude_bins: number of magnitudes in a range.
        shape: height and width, as a batch or a tuple. With it, translations are fractions of the extents.
        fill_value: value of pixels outside of warped images; None repeats the border.
        interp_type: interpolation of warps, INTERP_LINEAR or INTERP_NN.
        max_translate_abs: largest translation in pixels, 32 by default, or two, for height and width.
        max_translate_rel: largest translation as a fraction, 1 by default, or two, for height and width.
        seed: seed of the random choices.
        excluded: names of operations to exclude.

    Raises:
        ArgumentValueError: a number is out of range, or a name is unknown.

    Example:
        >>> from dali_proxy import fn
        >>> trivial_augment_wide(fn.external_source(name="images", layout="HWC")).device
        'cpu'
    """
    suite = get_trivial_augment_wide_suite(shape is not None, max_translate_abs, max_translate_rel)
    suite = without(suite, excluded, "TrivialAugmentWide")
    keywords = options(shape, fill_value, interp_type)
    return apply_suite(apply_trivial_augment, suite, data, num_magnitude_bins=num_magnitude_bins, seed=seed, **keywords)


def apply_trivial_augment(
    augmentations: Sequence[Augmentation],
    data: Any,
    num_magnitude_bins: int = 31,
    seed: int | None = None,
    **kwargs: Any,
) -> Any:
    """Apply TrivialAugment with custom operations.

    Args:
        augmentations: operations, drawn with equal probabilities.
        data: batch of samples.
        num_magnitude_bins: number of magnitudes in a range, drawn with equal probabilities.
        seed: seed of the random choices.
        **kwargs: further arguments of the operations, passed to those that have them.

    Raises:
        ArgumentValueError: a number is out of range, or there are no operations.
        UnknownArgumentError: no operation has an argument of that name.
    """
    if not isinstance(num_magnitude_bins, int) or num_magnitude_bins < 1:
        raise ArgumentValueError(f"`num_magnitude_bins` must be a positive integer, got {num_magnitude_bins}")
    if not augmentations:
        raise ArgumentValueError("the list of augmentations is empty")
    refuse_unused(augmentations, kwargs, "apply_trivial_augment")
    own_seeds = seeds(seed)
    chosen = draw(len(augmentations), next(own_seeds))
    strength = signed_bin(draw(num_magnitude_bins, next(own_seeds)), seed=next(own_seeds))
    return select(augmentations, chosen, data, magnitude_bin=strength, num_magnitude_bins=num_magnitude_bins, **kwargs)


def get_trivial_augment_wide_suite(
    use_shape: bool = False, max_translate_abs: Any = None, max_translate_rel: Any = None
) -> list[Augmentation]:
    """Return the 14 operations of TrivialAugment with the wide ranges.

    Args:
        use_shape: whether translations are fractions of the extents of the image.
        max_translate_abs: largest translation in pixels, 32 by default, or two, for height and width.
        max_translate_rel: largest translation as a fraction, 1 by default, or two, for height and width.
    """
    return [
        *a.translations(use_shape, 32, 1.0, max_translate_abs, max_translate_rel),
        *(each.augmentation(mag_range=(0, 0.99)) for each in (a.shear_x, a.shear_y)),
        a.rotate.augmentation(mag_range=(0, 135)),
        *(each.augmentation(mag_range=(0.01, 0.99)) for each in (a.brightness, a.contrast, a.color, a.sharpness)),
        a.posterize.augmentation(mag_range=(8, 2), randomly_negate=False),
        *(a.solarize, a.equalize, a.auto_contrast, a.identity),
    ]
