"""Building blocks of automatic augmentation: operations with a magnitude, policies, and the choice between them."""

from dali_proxy.pipeline.auto_aug.core.augmentation import Augmentation, augmentation
from dali_proxy.pipeline.auto_aug.core.choice import select
from dali_proxy.pipeline.auto_aug.core.magnitudes import signed_bin
from dali_proxy.pipeline.auto_aug.core.policy import Policy

__all__ = ["Augmentation", "Policy", "augmentation", "select", "signed_bin"]
