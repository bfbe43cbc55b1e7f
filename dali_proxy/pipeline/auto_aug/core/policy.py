"""Policies of AutoAugment: sequences of augmentations, each with a probability and a magnitude."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dali_proxy.pipeline.auto_aug.core.augmentation import Augmentation
from dali_proxy.pipeline.errors import ArgumentValueError

__all__ = ["Policy", "SubPolicy"]

#: (augmentation, probability, magnitude bin or None) in order.
SubPolicy = tuple[tuple[Augmentation, float, int | None], ...]


class Policy:
    """The sequences of operations from which `apply_auto_augment` draws.

    Args:
        name: name of the policy, for messages.
        num_magnitude_bins: number of magnitudes of each augmentation.
        sub_policies: sequences of (augmentation, probability, magnitude bin); the bin is None for augmentations without
            magnitudes.

    Attributes:
        sub_policies: sequences as above. If different augmentations have the same name, each gets a number as a prefix
            of its name.

    Raises:
        ArgumentValueError: an argument is invalid.

    Example:
        >>> from dali_proxy.pipeline.auto_aug.augmentations import equalize, rotate
        >>> policy = Policy("two", 11, [[(equalize, 0.8, None), (rotate, 0.5, 4)], [(equalize, 1.0, None)]])
        >>> sorted(policy.augmentations)
        ['equalize', 'rotate']
    """

    def __init__(self, name: str, num_magnitude_bins: int, sub_policies: Sequence[Sequence[Any]]) -> None:
        self.name = name
        self.num_magnitude_bins = num_magnitude_bins
        if not isinstance(num_magnitude_bins, int) or num_magnitude_bins < 1:
            raise ArgumentValueError(f"`num_magnitude_bins` must be a positive integer, got {num_magnitude_bins}")
        for sub_policy in sub_policies:
            if not isinstance(sub_policy, list | tuple):
                raise ArgumentValueError(f"a sub policy must be a list or tuple of operations, not {sub_policy!r}")
            for operation in sub_policy:
                self._check(operation)
        copied = tuple(tuple(tuple(operation) for operation in sub_policy) for sub_policy in sub_policies)
        renamed = _unique([augmentation for sub_policy in copied for augmentation, _, _ in sub_policy])
        self.sub_policies: tuple[SubPolicy, ...] = tuple(
            tuple((renamed[id(augmentation)], probability, chosen) for augmentation, probability, chosen in sub_policy)
            for sub_policy in copied
        )

    @property
    def augmentations(self) -> dict[str, Augmentation]:
        """The augmentations by name."""
        augmentations = {augmentation.name: augmentation for sub in self.sub_policies for augmentation, _, _ in sub}
        return dict(sorted(augmentations.items()))

    def _check(self, operation: Any) -> None:
        if not isinstance(operation, list | tuple) or len(operation) != 3:
            raise ArgumentValueError(
                f"an operation of a sub policy must be (augmentation, probability, magnitude bin), not {operation}"
            )
        augmentation, probability, chosen = operation
        if not isinstance(augmentation, Augmentation):
            raise ArgumentValueError(f"{augmentation!r} isn't an augmentation: decorate it with `@augmentation`")
        if not isinstance(probability, int | float) or not 0 <= probability <= 1:
            raise ArgumentValueError(
                f"the probability of {augmentation.name!r} must be between 0 and 1, not {probability!r}"
            )
        if chosen is None:
            if augmentation.mag_range is not None:
                raise ArgumentValueError(
                    f"{augmentation.name!r} has magnitudes, so policy {self.name!r} must choose one"
                )
        elif not isinstance(chosen, int) or not 0 <= chosen < self.num_magnitude_bins:
            raise ArgumentValueError(
                f"the magnitude bin of {augmentation.name!r} must be an integer from 0 to "
                f"{self.num_magnitude_bins - 1}, not {chosen!r}"
            )

    def __repr__(self) -> str:
        named = [[(each.name, probability, chosen) for each, probability, chosen in sub] for sub in self.sub_policies]
        policies = ",\n\t".join(repr(sub) for sub in named)
        augmentations = ",\n\t".join(f"{name!r}: {each!r}" for name, each in self.augmentations.items())
        return (
            f"Policy(name={self.name!r}, num_magnitude_bins={self.num_magnitude_bins}, "
            f"sub_policies=[{_indented(policies)}], augmentations={{{_indented(augmentations)}}})"
        )


def _indented(lines: str) -> str:
    return f"\n\t{lines}" if lines else ""


def _unique(augmentations: Sequence[Augmentation]) -> dict[int, Augmentation]:
    """Return augmentations by their ids; different ones with the same name get a number as a prefix."""
    by_name: dict[str, list[Augmentation]] = {}
    for augmentation in augmentations:
        same = by_name.setdefault(augmentation.name, [])
        if not any(augmentation is each for each in same):
            same.append(augmentation)
    return {
        id(each): each if len(same) == 1 else each.augmentation(name=f"{number}__{name}")
        for name, same in by_name.items()
        for number, each in enumerate(same)
    }
