"""AutoAugment (https://arxiv.org/abs/1805.09501): for each sample, a sequence of operations drawn from a policy."""

from __future__ import annotations

from typing import Any

import numpy as np

from dali_proxy.pipeline.auto_aug.augmentations import identity
from dali_proxy.pipeline.auto_aug.core import Augmentation, Policy, select, signed_bin
from dali_proxy.pipeline.auto_aug.core.choice import refuse_unused
from dali_proxy.pipeline.auto_aug.core.magnitudes import coin, seeds, take
from dali_proxy.pipeline.auto_aug.policies import (
    get_image_net_policy,
    get_reduced_cifar10_policy,
    get_reduced_image_net_policy,
    get_svhn_policy,
)
from dali_proxy.pipeline.auto_aug.suites import draw, options
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError

__all__ = [
    "apply_auto_augment",
    "auto_augment",
    "auto_augment_image_net",
    "get_image_net_policy",
    "get_reduced_cifar10_policy",
    "get_reduced_image_net_policy",
    "get_svhn_policy",
]

_POLICIES = {
    "image_net": get_image_net_policy,
    "reduced_image_net": get_reduced_image_net_policy,
    "svhn": get_svhn_policy,
    "reduced_cifar10": get_reduced_cifar10_policy,
}


def auto_augment(
    data: Any,
    policy_name: str = "image_net",
    shape: Any = None,
    fill_value: int | None = 128,
    interp_type: Any = None,
    max_translate_abs: Any = None,
    max_translate_rel: Any = None,
    seed: int | None = None,
) -> Any:
    """Apply one of the policies of the AutoAugment paper.

    Args:
        data: UINT8 images (HWC) or sequences (FHWC).
        policy_name: "image_net", "reduced_image_net", "svhn" or "reduced_cifar10".
        shape: height and width, as a batch or a tuple. With it, translations are fractions of the extents.
        fill_value: value of pixels outside of warped images; None repeats the border.
        interp_type: interpolation of warps, INTERP_LINEAR or INTERP_NN.
        max_translate_abs: largest translation in pixels, 250 by default, or two, for height and width.
        max_translate_rel: largest translation as a fraction, 1 by default, or two, for height and width.
        seed: seed of the random choices.

    Raises:
        ArgumentValueError: the policy is unknown, or has no translations but gets a shape or limits of translations.

    Example:
        >>> from dali_proxy import fn
        >>> auto_augment(fn.external_source(name="images", layout="HWC"), "svhn").device
        'cpu'
    """
    if policy_name not in _POLICIES:
        raise ArgumentValueError(f"`policy_name` must be one of {', '.join(map(repr, _POLICIES))}, not {policy_name!r}")
    if policy_name == "reduced_image_net":
        if shape is not None or max_translate_abs is not None or max_translate_rel is not None:
            raise ArgumentValueError(
                "the policy 'reduced_image_net' has no translations: it accepts neither `shape` nor limits of "
                "translations"
            )
        policy = get_reduced_image_net_policy()
    else:
        make: Any = _POLICIES[policy_name]
        policy = make(shape is not None, max_translate_abs, max_translate_rel)
    return apply_auto_augment(policy, data, seed, **options(shape, fill_value, interp_type))


def auto_augment_image_net(
    data: Any,
    shape: Any = None,
    fill_value: int | None = 128,
    interp_type: Any = None,
    max_translate_abs: Any = None,
    max_translate_rel: Any = None,
    seed: int | None = None,
) -> Any:
    """Apply the policy for ImageNet. The arguments are those of `auto_augment`."""
    return auto_augment(data, "image_net", shape, fill_value, interp_type, max_translate_abs, max_translate_rel, seed)


def apply_auto_augment(policy: Policy, data: Any, seed: int | None = None, **kwargs: Any) -> Any:
    """Apply a policy: draw one of its sequences of operations for each sample, with equal probabilities.

    Args:
        policy: policy with the sequences.
        data: batch of samples.
        seed: seed of the random choices.
        **kwargs: further arguments of the operations, passed to those that have them.

    Raises:
        ArgumentTypeError: `policy` isn't a `Policy`.
        ArgumentValueError: the policy has no sequences.
        UnknownArgumentError: no operation has an argument of that name.
    """
    if not isinstance(policy, Policy):
        raise ArgumentTypeError(f"apply_auto_augment needs a Policy, not {type(policy).__name__}")
    if not policy.sub_policies:
        raise ArgumentValueError(f"the policy {policy.name!r} has no sub policies")
    refuse_unused(list(policy.augmentations.values()), kwargs, "apply_auto_augment")
    own_seeds = seeds(seed)
    chosen = draw(len(policy.sub_policies), next(own_seeds))
    for stage in range(max(len(sub_policy) for sub_policy in policy.sub_policies)):
        data = _apply_stage(policy, stage, data, chosen, next(own_seeds), next(own_seeds), kwargs)
    return data


def _apply_stage(
    policy: Policy, stage: int, data: Any, chosen: Any, seed: int | None, sign_seed: int | None, kwargs: dict[str, Any]
) -> Any:
    """Apply to each sample, with its probability, the operation at one position of the sub policy."""
    nothing = (identity, 0.0, None)
    steps = [sub_policy[stage] if stage < len(sub_policy) else nothing for sub_policy in policy.sub_policies]
    ops: list[Augmentation] = [identity]
    for augmentation, _, _ in steps:
        if not any(augmentation is op for op in ops):
            ops.append(augmentation)
    numbers = [next(number for number, op in enumerate(ops) if op is augmentation) for augmentation, _, _ in steps]
    happens = coin(take(np.array([step[1] for step in steps], np.float32), chosen), seed)
    bins = take(np.array([step[2] or 0 for step in steps], np.int32), chosen)
    return select(
        ops,
        take(np.array(numbers, np.int32), chosen) * happens,
        data,
        magnitude_bin=signed_bin(bins, seed=sign_seed),
        num_magnitude_bins=policy.num_magnitude_bins,
        **kwargs,
    )
