"""The policies of the AutoAugment paper (https://arxiv.org/abs/1805.09501, tables 7, 8 and 9) and of its authors."""

from __future__ import annotations

from typing import Any

from dali_proxy.pipeline.auto_aug import augmentations as a
from dali_proxy.pipeline.auto_aug.core.augmentation import Augmentation
from dali_proxy.pipeline.auto_aug.core.policy import Policy

__all__ = ["get_image_net_policy", "get_reduced_cifar10_policy", "get_reduced_image_net_policy", "get_svhn_policy"]

_BINS = 11

# Enhancements of the paper have magnitudes without a sign; the magnitude 1 changes nothing.
brightness, color, contrast = (
    each.augmentation(mag_range=(0.1, 1.9), randomly_negate=False, mag_to_param=None)
    for each in (a.brightness, a.color, a.contrast)
)
sharpness = a.sharpness.augmentation(
    mag_range=(0.1, 1.9), randomly_negate=False, mag_to_param=a.sharpness_kernel_shifted
)
posterize = a.posterize.augmentation(mag_range=(0, 4), randomly_negate=False)
solarize = a.solarize.augmentation(mag_range=(0, 256), randomly_negate=False)
solarize_add = a.solarize_add.augmentation(randomly_negate=False)


def get_image_net_policy(
    use_shape: bool = False, max_translate_abs: Any = None, max_translate_rel: Any = None
) -> Policy:
    """Return the policy for ImageNet.

    Args:
        use_shape: whether translations are fractions of the extents of the image.
        max_translate_abs: largest translation in pixels, 250 by default, or two, for height and width.
        max_translate_rel: largest translation as a fraction, 1 by default, or two, for height and width.
    """
    _, translate_y = _translations(use_shape, max_translate_abs, max_translate_rel)
    return Policy(
        "ImageNetPolicy",
        _BINS,
        [
            [(a.equalize, 0.8, None), (a.shear_y, 0.8, 4)],
            [(color, 0.4, 9), (a.equalize, 0.6, None)],
            [(color, 0.4, 1), (a.rotate, 0.6, 8)],
            [(solarize, 0.8, 3), (a.equalize, 0.4, None)],
            [(solarize, 0.4, 2), (solarize, 0.6, 2)],
            [(color, 0.2, 0), (a.equalize, 0.8, None)],
            [(a.equalize, 0.4, None), (solarize_add, 0.8, 3)],
            [(a.shear_x, 0.2, 9), (a.rotate, 0.6, 8)],
            [(color, 0.6, 1), (a.equalize, 1.0, None)],
            [(a.invert, 0.4, None), (a.rotate, 0.6, 0)],
            [(a.equalize, 1.0, None), (a.shear_y, 0.6, 3)],
            [(color, 0.4, 7), (a.equalize, 0.6, None)],
            [(posterize, 0.4, 6), (a.auto_contrast, 0.4, None)],
            [(solarize, 0.6, 8), (color, 0.6, 9)],
            [(solarize, 0.2, 4), (a.rotate, 0.8, 9)],
            [(a.rotate, 1.0, 7), (translate_y, 0.8, 9)],
            [(solarize, 0.8, 4)],
            [(a.shear_y, 0.8, 0), (color, 0.6, 4)],
            [(color, 1.0, 0), (a.rotate, 0.6, 2)],
            [(a.equalize, 0.8, None)],
            [(a.equalize, 1.0, None), (a.auto_contrast, 0.6, None)],
            [(a.shear_y, 0.4, 7), (solarize_add, 0.6, 7)],
            [(posterize, 0.8, 2), (solarize, 0.6, 10)],
            [(solarize, 0.6, 8), (a.equalize, 0.6, None)],
            [(color, 0.8, 6), (a.rotate, 0.4, 5)],
        ],
    )


def get_reduced_image_net_policy() -> Policy:
    """Return the policy for a reduced ImageNet; it has no translations."""
    return Policy(
        "ReducedImageNetPolicy",
        _BINS,
        [
            [(posterize, 0.4, 8), (a.rotate, 0.6, 9)],
            [(solarize, 0.6, 5), (a.auto_contrast, 0.6, None)],
            [(a.equalize, 0.8, None), (a.equalize, 0.6, None)],
            [(posterize, 0.6, 7), (posterize, 0.6, 6)],
            [(a.equalize, 0.4, None), (solarize, 0.2, 4)],
            [(a.equalize, 0.4, None), (a.rotate, 0.8, 8)],
            [(solarize, 0.6, 3), (a.equalize, 0.6, None)],
            [(posterize, 0.8, 5), (a.equalize, 1.0, None)],
            [(a.rotate, 0.2, 3), (solarize, 0.6, 8)],
            [(a.equalize, 0.6, None), (posterize, 0.4, 6)],
            [(a.rotate, 0.8, 8), (color, 0.4, 0)],
            [(a.rotate, 0.4, 9), (a.equalize, 0.6, None)],
            [(a.equalize, 0.8, None)],
            [(a.invert, 0.6, None), (a.equalize, 1.0, None)],
            [(color, 0.6, 4), (contrast, 1.0, 8)],
            [(a.rotate, 0.8, 8), (color, 1.0, 2)],
            [(color, 0.8, 8), (solarize, 0.8, 7)],
            [(sharpness, 0.4, 7), (a.invert, 0.6, None)],
            [(a.shear_x, 0.6, 5), (a.equalize, 1.0, None)],
            [(color, 0.4, 0), (a.equalize, 0.6, None)],
            [(a.equalize, 0.4, None), (solarize, 0.2, 4)],
            [(solarize, 0.6, 5), (a.auto_contrast, 0.6, None)],
            [(a.invert, 0.6, None), (a.equalize, 1.0, None)],
            [(color, 0.6, 4), (contrast, 1.0, 8)],
            [(a.equalize, 0.8, None), (a.equalize, 0.6, None)],
        ],
    )


def get_reduced_cifar10_policy(
    use_shape: bool = False, max_translate_abs: Any = None, max_translate_rel: Any = None
) -> Policy:
    """Return the policy for a reduced CIFAR-10. The arguments are those of `get_image_net_policy`."""
    translate_x, translate_y = _translations(use_shape, max_translate_abs, max_translate_rel)
    return Policy(
        "ReducedCifar10Policy",
        _BINS,
        [
            [(a.invert, 0.1, None), (contrast, 0.2, 6)],
            [(a.rotate, 0.7, 2), (translate_x, 0.3, 9)],
            [(sharpness, 0.8, 1), (sharpness, 0.9, 3)],
            [(a.shear_y, 0.5, 8), (translate_y, 0.7, 9)],
            [(a.auto_contrast, 0.5, None), (a.equalize, 0.9, None)],
            [(a.shear_y, 0.2, 7), (posterize, 0.3, 7)],
            [(color, 0.4, 3), (brightness, 0.6, 7)],
            [(sharpness, 0.3, 9), (brightness, 0.7, 9)],
            [(a.equalize, 0.6, None), (a.equalize, 0.5, None)],
            [(contrast, 0.6, 7), (sharpness, 0.6, 5)],
            [(color, 0.7, 7), (translate_x, 0.5, 8)],
            [(a.equalize, 0.3, None), (a.auto_contrast, 0.4, None)],
            [(translate_y, 0.4, 3), (sharpness, 0.2, 6)],
            [(brightness, 0.9, 6), (color, 0.2, 8)],
            [(solarize, 0.5, 2)],
            [(a.equalize, 0.2, None), (a.auto_contrast, 0.6, None)],
            [(a.equalize, 0.2, None), (a.equalize, 0.6, None)],
            [(color, 0.9, 9), (a.equalize, 0.6, None)],
            [(a.auto_contrast, 0.8, None), (solarize, 0.2, 8)],
            [(brightness, 0.1, 3), (color, 0.7, 0)],
            [(solarize, 0.4, 5), (a.auto_contrast, 0.9, None)],
            [(translate_y, 0.9, 9), (translate_y, 0.7, 9)],
            [(a.auto_contrast, 0.9, None), (solarize, 0.8, 3)],
            [(a.equalize, 0.8, None), (a.invert, 0.1, None)],
            [(translate_y, 0.7, 9), (a.auto_contrast, 0.9, None)],
        ],
    )


def get_svhn_policy(use_shape: bool = False, max_translate_abs: Any = None, max_translate_rel: Any = None) -> Policy:
    """Return the policy for SVHN. The arguments are those of `get_image_net_policy`."""
    translate_x, translate_y = _translations(use_shape, max_translate_abs, max_translate_rel)
    return Policy(
        "SvhnPolicy",
        _BINS,
        [
            [(a.shear_x, 0.9, 4), (a.invert, 0.2, None)],
            [(a.shear_y, 0.9, 8), (a.invert, 0.7, None)],
            [(a.equalize, 0.6, None), (solarize, 0.6, 6)],
            [(a.invert, 0.9, None), (a.equalize, 0.6, None)],
            [(a.equalize, 0.6, None), (a.rotate, 0.9, 3)],
            [(a.shear_x, 0.9, 4), (a.auto_contrast, 0.8, None)],
            [(a.shear_y, 0.9, 8), (a.invert, 0.4, None)],
            [(a.shear_y, 0.9, 5), (solarize, 0.2, 6)],
            [(a.invert, 0.9, None), (a.auto_contrast, 0.8, None)],
            [(a.equalize, 0.6, None), (a.rotate, 0.9, 3)],
            [(a.shear_x, 0.9, 4), (solarize, 0.3, 3)],
            [(a.shear_y, 0.8, 8), (a.invert, 0.7, None)],
            [(a.equalize, 0.9, None), (translate_y, 0.6, 6)],
            [(a.invert, 0.9, None), (a.equalize, 0.6, None)],
            [(contrast, 0.3, 3), (a.rotate, 0.8, 4)],
            [(a.invert, 0.8, None)],
            [(a.shear_y, 0.7, 6), (solarize, 0.4, 8)],
            [(a.invert, 0.6, None), (a.rotate, 0.8, 4)],
            [(a.shear_y, 0.3, 7), (translate_x, 0.9, 3)],
            [(a.shear_x, 0.1, 6), (a.invert, 0.6, None)],
            [(solarize, 0.7, 2), (translate_y, 0.6, 7)],
            [(a.shear_y, 0.8, 4), (a.invert, 0.8, None)],
            [(a.shear_x, 0.7, 9), (translate_y, 0.8, 3)],
            [(a.shear_y, 0.8, 5), (a.auto_contrast, 0.7, None)],
            [(a.shear_x, 0.7, 2), (a.invert, 0.1, None)],
        ],
    )


def _translations(use_shape: bool, most_abs: Any, most_rel: Any) -> tuple[Augmentation, Augmentation]:
    return a.translations(use_shape, 250, 1.0, most_abs, most_rel)
