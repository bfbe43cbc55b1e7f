"""Automatic augmentation: AutoAugment, RandAugment, TrivialAugment, and tools to write more.

The operations are drawn for each sample. Samples with the same operation run together.
"""

from dali_proxy.pipeline.auto_aug import augmentations, auto_augment, core, rand_augment, trivial_augment

__all__ = ["augmentations", "auto_augment", "core", "rand_augment", "trivial_augment"]
