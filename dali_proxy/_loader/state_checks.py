"""Checks of the states that users load: a damaged one is an error at once, not in the next epoch."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from dali_proxy.pipeline.errors import ArgumentMismatchError

_POSITION = {"batches", "dataset", "iterator", "ended"}
_SAMPLER = {"state", "first", "drain"}


def _is_number(value: Any, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _or_none(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or check(value)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _are_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_number, value))


def _are_states(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(each, torch.Tensor) and each.dtype == torch.uint8 for each in value.values()
    )


def _are_global_states(value: Any) -> bool:
    """Return whether the global generators accept these states."""
    if not isinstance(value, Mapping):
        return False
    try:
        if "torch" in value:
            torch.Generator().set_state(value["torch"])
        if "python" in value:
            version, numbers, gauss = value["python"]
            random.Random().setstate((version, tuple(numbers), gauss))
        if "numpy" in value:
            kind, keys, *rest = value["numpy"]
            np.random.RandomState().set_state((kind, np.array(keys, np.uint32), *rest))
    except Exception:  # noqa: BLE001  # the generators raise many kinds
        return False
    return True


def _are_positions(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        _is_number(number)
        and isinstance(each, Mapping)
        and set(each) == _POSITION
        and _is_number(each["batches"])
        and isinstance(each["ended"], bool)
        for number, each in value.items()
    )


_CHECKS: dict[str, Callable[[Any], bool]] = {
    "kind": lambda value: isinstance(value, str),
    "epoch": _is_number,
    "batches": _is_number,
    "done": _are_numbers,
    "batch_size": _or_none(lambda value: _is_number(value, 1)),
    "samples": _or_none(_is_number),
    "sampler_class": lambda value: isinstance(value, str),
    "seed": _or_none(_is_integer),
    "rank": _or_none(_is_number),
    "own": _are_states,
    "shared": _are_global_states,
    "seeded": lambda value: isinstance(value, bool),
    "sampler": _or_none(lambda value: isinstance(value, Mapping) and set(value) == _SAMPLER),
    "sampler_epoch": _or_none(_is_integer),
    "workers": _is_number,
    "last_worker": lambda value: _is_number(value, -1),
    "positions": _are_positions,
}


def check_fields(state: Mapping[str, Any]) -> None:
    """Check the values of a state's fields.

    Raises:
        ArgumentMismatchError: a value is damaged; the message names its field.
    """
    for name, check in _CHECKS.items():
        if name in state and not check(state[name]):
            raise ArgumentMismatchError(f"the state is damaged: {name!r} can't be {state[name]!r}")
    workers = state["workers"]
    if state["last_worker"] >= max(workers, 1) or any(number >= max(workers, 1) for number in state["positions"]):
        raise ArgumentMismatchError(f"the state is damaged: there are positions of more than {workers} workers")
