"""Helpers of the three schemes: excluding operations, drawing one, passing arguments on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dali_proxy.pipeline._graph import DataNode
from dali_proxy.pipeline.auto_aug.core.augmentation import Augmentation
from dali_proxy.pipeline.auto_aug.core.magnitudes import apply
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.types import DALIDataType

__all__ = ["apply_suite", "draw", "options", "without"]


def draw(count: int, seed: int | None) -> DataNode:
    """Draw a number from 0 to below `count` for each sample."""
    values = [float(number) for number in range(count)]
    return apply("random.uniform", values=values, dtype=DALIDataType.INT32, seed=seed)


def options(shape: Any, fill_value: Any, interp_type: Any) -> dict[str, Any]:
    """Return the further arguments of the operations of the predefined suites."""
    arguments = {"fill_value": fill_value, "interp_type": interp_type}
    return arguments if shape is None else {**arguments, "shape": shape}


def without(suite: Sequence[Augmentation], excluded: Sequence[str] | None, name: str) -> list[Augmentation]:
    """Return a suite without the excluded operations.

    Raises:
        ArgumentValueError: the suite has no operation of that name.
    """
    names = [augmentation.name for augmentation in suite]
    for unknown in excluded or ():
        if unknown not in names:
            raise ArgumentValueError(
                f"{unknown!r} is in `excluded`, but {name} has no such operation; it has {', '.join(names)}"
            )
    return [augmentation for augmentation in suite if augmentation.name not in (excluded or ())]


def apply_suite(apply: Callable[..., Any], suite: Sequence[Augmentation], *args: Any, **kwargs: Any) -> Any:
    """Apply a scheme to a suite, with the arguments that its operations have."""
    used = {each.name for augmentation in suite for each in augmentation.extra_arguments()}
    own = {"num_magnitude_bins", "seed"}
    return apply(suite, *args, **{key: value for key, value in kwargs.items() if key in used | own})
