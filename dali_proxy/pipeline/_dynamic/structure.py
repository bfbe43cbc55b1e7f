"""Structures of results: what a traced function returns, with the number of an output in place of each tensor."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from dali_proxy.pipeline.errors import ArgumentTypeError


@dataclass(frozen=True)
class Output:
    """The place of an output in a structure."""

    number: int


def flatten(returned: Any, is_leaf: Callable[[Any], bool], refuse: Callable[[str, Any], str]) -> tuple[Any, list[Any]]:
    """Return the structure of a result, and its leaves in order. A leaf that occurs twice is one output.

    Args:
        returned: leaves in dicts, lists, tuples, named tuples and dataclasses, in any nesting.
        is_leaf: returns whether an object is a leaf.
        refuse: returns the message for another object, given its place, such as ``['boxes'][0]``.

    Raises:
        ArgumentTypeError: the result has another object, or refers to itself.
    """
    leaves: list[Any] = []
    numbers: dict[int, int] = {}
    outer: set[int] = set()

    def convert(value: Any, place: str) -> Any:
        if is_leaf(value):
            if id(value) not in numbers:
                numbers[id(value)] = len(leaves)
                leaves.append(value)
            return Output(numbers[id(value)])
        if not _is_container(value) or id(value) in outer:
            raise ArgumentTypeError(refuse(place, value))
        outer.add(id(value))
        structure = _mapped(value, convert, place)
        outer.remove(id(value))
        return structure

    return convert(returned, ""), leaves


def fill(structure: Any, values: Sequence[Any]) -> Any:
    """Return a structure with a value in place of each output."""
    if isinstance(structure, Output):
        return values[structure.number]
    return _mapped(structure, lambda each, _: fill(each, values), "")


def places(structure: Any) -> list[tuple[str, int]]:
    """Return the place of each output in a structure, and its number."""
    found: list[tuple[str, int]] = []

    def visit(value: Any, place: str) -> None:
        if isinstance(value, Output):
            found.append((place, value.number))
        else:
            _mapped(value, visit, place)

    if structure is not None:
        visit(structure, "")
    return found


def is_record(value: Any) -> bool:
    """Return whether an object is an instance of a dataclass."""
    return is_dataclass(value) and not isinstance(value, type)


def _is_container(value: Any) -> bool:
    return isinstance(value, Mapping | list | tuple) or is_record(value)


def _mapped(value: Any, convert: Callable[[Any, str], Any], place: str) -> Any:
    if isinstance(value, Mapping):
        return {name: convert(each, f"{place}[{name!r}]") for name, each in value.items()}
    if isinstance(value, list | tuple):
        items = [convert(each, f"{place}[{position}]") for position, each in enumerate(value)]
        if isinstance(value, list):
            return items
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    result = copy.copy(value)
    for each in fields(value):
        object.__setattr__(result, each.name, convert(getattr(value, each.name), f"{place}.{each.name}"))
    return result
