"""Automatic augmentation: AutoAugment, RandAugment and TrivialAugment, and what is needed to write more.

Each sample is changed by operations that are drawn for it; samples that drew the same operation run together.
"""

from pipeline.auto_aug import augmentations, auto_augment, core, rand_augment, trivial_augment

__all__ = ["augmentations", "auto_augment", "core", "rand_augment", "trivial_augment"]
