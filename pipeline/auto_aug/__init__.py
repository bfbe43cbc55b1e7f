"""Automatic augmentation: AutoAugment, RandAugment, TrivialAugment, and tools to write more.

Each sample is changed by operations that are drawn for it; samples that drew the same operation run together.
"""

from pipeline.auto_aug import augmentations, auto_augment, core, rand_augment, trivial_augment

__all__ = ["augmentations", "auto_augment", "core", "rand_augment", "trivial_augment"]
