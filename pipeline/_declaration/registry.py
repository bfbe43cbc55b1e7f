"""The table of operators: declarations and, for each device, the class that implements it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pipeline._declaration.schema import OperatorSchema

__all__ = ["all_schemas", "has_implementation", "implementation", "implements", "lookup", "register"]

_Class = TypeVar("_Class", bound=type[Any])

_SCHEMAS: dict[str, OperatorSchema] = {}
_IMPLEMENTATIONS: dict[tuple[str, str], type[Any]] = {}


def register(schema: OperatorSchema) -> OperatorSchema:
    """Add an operator to the table; its module does so when it is imported."""
    if schema.name in _SCHEMAS:
        raise RuntimeError(f"operator {schema.name} is declared twice")
    _SCHEMAS[schema.name] = schema
    return schema


def implements(schema: OperatorSchema, *devices: str) -> Callable[[_Class], _Class]:
    """Class decorator: the class implements the operator on these devices."""
    unknown = set(devices) - set(schema.devices)
    if unknown:
        raise RuntimeError(f"operator {schema.name} doesn't declare {', '.join(sorted(unknown))}")

    def add(cls: _Class) -> _Class:
        for device in devices:
            _IMPLEMENTATIONS[schema.name, device] = cls
        return cls

    return add


def lookup(name: str) -> OperatorSchema:
    """Return the declaration of an operator.

    Raises:
        KeyError: when there is none of that name.
    """
    return _SCHEMAS[name]


def implementation(name: str, device: str) -> type[Any]:
    """Return the class that implements an operator on a device."""
    return _IMPLEMENTATIONS[name, device]


def has_implementation(name: str, device: str) -> bool:
    """Tell whether an operator has a version for a device."""
    return (name, device) in _IMPLEMENTATIONS


def all_schemas() -> tuple[OperatorSchema, ...]:
    """Return all declarations, sorted by name."""
    return tuple(_SCHEMAS[name] for name in sorted(_SCHEMAS))
