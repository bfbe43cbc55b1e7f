"""TrivialAugment (https://arxiv.org/abs/2103.10158): one operation of any magnitude, drawn for each sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline.auto_aug import augmentations as a
from pipeline.auto_aug.core import Augmentation, select, signed_bin
from pipeline.auto_aug.core.choice import refuse_unused
from pipeline.auto_aug.core.magnitudes import seeds
from pipeline.auto_aug.suites import apply_suite, draw, options, without
from pipeline.errors import ArgumentValueError

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
        data: UINT8 pictures (HWC) or sequences (FHWC).
        num_magnitude_bins: into how many magnitudes ranges are divided.
        shape: height and width, as a batch or a tuple: then translations are by fractions of them.
        fill_value: what stands outside of warped pictures; None repeats the border.
        interp_type: of warps: INTERP_LINEAR or INTERP_NN.
        max_translate_abs: largest translation in pixels, 32 by default, or two, for height and width.
        max_translate_rel: largest translation as a fraction, 1 by default, or two, for height and width.
        seed: of what is drawn.
        excluded: names of operations that are left out.

    Raises:
        ArgumentValueError: for numbers out of their range, or names that are none.

    Example:
        >>> from pipeline import fn
        >>> trivial_augment_wide(fn.external_source(name="images", layout="HWC")).device
        'cpu'
    """
    suite = get_trivial_augment_wide_suite(shape is not None, max_translate_abs, max_translate_rel)
    suite = without(suite, excluded, "TrivialAugmentWide")
    given = options(shape, fill_value, interp_type)
    return apply_suite(apply_trivial_augment, suite, data, num_magnitude_bins=num_magnitude_bins, seed=seed, **given)


def apply_trivial_augment(
    augmentations: Sequence[Augmentation],
    data: Any,
    num_magnitude_bins: int = 31,
    seed: int | None = None,
    **kwargs: Any,
) -> Any:
    """Apply TrivialAugment with operations of the caller's.

    Args:
        augmentations: the operations; each is drawn with the same probability.
        data: a batch.
        num_magnitude_bins: into how many magnitudes ranges are divided; each is drawn with the same probability.
        seed: of what is drawn.
        **kwargs: further arguments of the operations, passed to those that have them.

    Raises:
        ArgumentValueError: for numbers out of their range, or no operations.
        UnknownArgumentError: for arguments that no operation has.
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
    """Return the 14 operations of the wide space of TrivialAugment.

    Args:
        use_shape: whether translations are by fractions of the picture's extents.
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
