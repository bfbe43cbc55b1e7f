"""RandAugment (https://arxiv.org/abs/1909.13719): n operations of the same magnitude, drawn for each sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dali_proxy.pipeline.auto_aug import augmentations as a
from dali_proxy.pipeline.auto_aug.core import Augmentation, select, signed_bin
from dali_proxy.pipeline.auto_aug.core.choice import refuse_unused
from dali_proxy.pipeline.auto_aug.core.magnitudes import seeds
from dali_proxy.pipeline.auto_aug.policies import brightness, color, contrast, posterize, sharpness, solarize
from dali_proxy.pipeline.auto_aug.suites import apply_suite, draw, options, without
from dali_proxy.pipeline.errors import ArgumentValueError

__all__ = [
    "apply_rand_augment",
    "get_rand_augment_non_monotonic_suite",
    "get_rand_augment_suite",
    "rand_augment",
]


def rand_augment(
    data: Any,
    n: int,
    m: int,
    num_magnitude_bins: int = 31,
    shape: Any = None,
    fill_value: int | None = 128,
    interp_type: Any = None,
    max_translate_abs: Any = None,
    max_translate_rel: Any = None,
    seed: int | None = None,
    monotonic_mag: bool = True,
    excluded: Sequence[str] | None = None,
) -> Any:
    """Apply RandAugment.

    Args:
        data: UINT8 images (HWC) or sequences (FHWC).
        n: number of operations applied to each sample.
        m: magnitude of the operations, from 0 to below the number of bins.
        num_magnitude_bins: number of magnitudes in a range.
        shape: height and width, as a batch or a tuple. With it, translations are fractions of the extents.
        fill_value: value of pixels outside of warped images; None repeats the border.
        interp_type: interpolation of warps, INTERP_LINEAR or INTERP_NN.
        max_translate_abs: largest translation in pixels, 100 by default, or two, for height and width.
        max_translate_rel: largest translation as a fraction, about 0.45 by default, or two, for height and width.
        seed: seed of the random choices.
        monotonic_mag: whether larger magnitudes mean stronger changes for all operations.
        excluded: names of operations to exclude.

    Raises:
        ArgumentValueError: a number is out of range, or a name is unknown.

    Example:
        >>> from dali_proxy import fn
        >>> rand_augment(fn.external_source(name="images", layout="HWC"), n=2, m=9).device
        'cpu'
    """
    make = get_rand_augment_suite if monotonic_mag else get_rand_augment_non_monotonic_suite
    suite = without(make(shape is not None, max_translate_abs, max_translate_rel), excluded, "RandAugment")
    keywords = options(shape, fill_value, interp_type)
    return apply_suite(
        apply_rand_augment, suite, data, n, m, num_magnitude_bins=num_magnitude_bins, seed=seed, **keywords
    )


def apply_rand_augment(
    augmentations: Sequence[Augmentation],
    data: Any,
    n: int,
    m: int,
    num_magnitude_bins: int = 31,
    seed: int | None = None,
    **kwargs: Any,
) -> Any:
    """Apply RandAugment with custom operations.

    Args:
        augmentations: operations, drawn with equal probabilities.
        data: batch of samples.
        n: number of operations applied to each sample.
        m: magnitude of the operations.
        num_magnitude_bins: number of magnitudes in a range.
        seed: seed of the random choices.
        **kwargs: further arguments of the operations, passed to those that have them.

    Raises:
        ArgumentValueError: a number is out of range, or there are no operations.
        UnknownArgumentError: no operation has an argument of that name.
    """
    if not isinstance(n, int) or n < 0:
        raise ArgumentValueError(f"the number of operations `n` must be 0 or more, not {n}")
    if num_magnitude_bins < 1:
        raise ArgumentValueError(f"`num_magnitude_bins` must be a positive integer, got {num_magnitude_bins}")
    if not isinstance(m, int) or not 0 <= m < num_magnitude_bins:
        raise ArgumentValueError(
            f"the magnitude bin `m` must be an integer from 0 to {num_magnitude_bins - 1}, not {m}"
        )
    if n == 0:
        return data
    if not augmentations:
        raise ArgumentValueError("the list of augmentations is empty")
    refuse_unused(augmentations, kwargs, "apply_rand_augment")
    own_seeds = seeds(seed)
    for _ in range(n):
        chosen = draw(len(augmentations), next(own_seeds))
        strength = signed_bin(m, seed=next(own_seeds))
        data = select(
            augmentations,
            chosen,
            data,
            magnitude_bin=strength,
            num_magnitude_bins=num_magnitude_bins,
            **kwargs,
        )
    return data


def get_rand_augment_suite(
    use_shape: bool = False, max_translate_abs: Any = None, max_translate_rel: Any = None
) -> list[Augmentation]:
    """Return the operations of RandAugment with ranges where larger magnitudes mean stronger changes.

    Args:
        use_shape: whether translations are fractions of the extents of the image.
        max_translate_abs: largest translation in pixels, 100 by default, or two, for height and width.
        max_translate_rel: largest translation as a fraction, about 0.45 by default, or two, for height and width.
    """
    return [
        *a.translations(use_shape, 100, 100 / 224, max_translate_abs, max_translate_rel),
        *(a.shear_x, a.shear_y, a.rotate, a.brightness, a.contrast, a.color, a.sharpness),
        a.posterize.augmentation(mag_range=(8, 4), randomly_negate=False),
        *(a.solarize, a.equalize, a.auto_contrast, a.identity),
    ]


def get_rand_augment_non_monotonic_suite(
    use_shape: bool = False, max_translate_abs: Any = None, max_translate_rel: Any = None
) -> list[Augmentation]:
    """Return the operations of RandAugment with the ranges of AutoAugment. The arguments are the same."""
    along_x, along_y = a.translations(use_shape, 100, 100 / 224, max_translate_abs, max_translate_rel)
    return [
        *(along_x, along_y, a.shear_x, a.shear_y, a.rotate),
        *(brightness, contrast, color, sharpness, posterize, solarize),
        *(a.equalize, a.auto_contrast, a.identity),
    ]
