"""What the three schemes share: leaving operations out, drawing one, passing on what the user gave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pipeline._graph import DataNode, apply_operator
from pipeline.auto_aug.core.augmentation import Augmentation
from pipeline.errors import ArgumentValueError
from pipeline.types import DALIDataType

__all__ = ["apply_suite", "draw", "options", "without"]


def draw(count: int, seed: int | None) -> DataNode:
    """Draw a number from 0 to below `count` for each sample."""
    arguments = {"values": [float(number) for number in range(count)], "dtype": DALIDataType.INT32, "seed": seed}
    made = apply_operator("random.uniform", (), arguments)
    assert isinstance(made, DataNode)
    return made


def options(shape: Any, fill_value: Any, interp_type: Any) -> dict[str, Any]:
    """Return the further arguments of the operations of the predefined suites."""
    made = {"fill_value": fill_value, "interp_type": interp_type}
    return made if shape is None else {**made, "shape": shape}


def without(suite: Sequence[Augmentation], excluded: Sequence[str] | None, name: str) -> list[Augmentation]:
    """Return a suite without some operations.

    Raises:
        ArgumentValueError: for a name that none of them has.
    """
    names = [augmentation.name for augmentation in suite]
    for unknown in excluded or ():
        if unknown not in names:
            raise ArgumentValueError(
                f"{unknown!r} is in `excluded`, but {name} has no such operation; it has {', '.join(names)}"
            )
    return [augmentation for augmentation in suite if augmentation.name not in (excluded or ())]


def apply_suite(apply: Callable[..., Any], suite: Sequence[Augmentation], *args: Any, **kwargs: Any) -> Any:
    """Apply a scheme to a suite, with those arguments that some of its operations have."""
    used = {each.name for augmentation in suite for each in augmentation.extra_arguments()}
    own = {"num_magnitude_bins", "seed"}
    return apply(suite, *args, **{key: value for key, value in kwargs.items() if key in used | own})
