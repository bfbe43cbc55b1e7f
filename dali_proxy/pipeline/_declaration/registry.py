"""The registry of operators: the schema of each operator, and its implementation for each device."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, ParamSpec, TypeVar

from dali_proxy.pipeline._declaration.schema import OperatorSchema

_Class = TypeVar("_Class", bound=type[Any])
_Fields = ParamSpec("_Fields")

_SCHEMAS: dict[str, OperatorSchema] = {}
_IMPLEMENTATIONS: dict[tuple[str, str], type[Any]] = {}


def register(schema: OperatorSchema) -> OperatorSchema:
    """Add an operator to the registry. Modules of operators call this when they are imported."""
    if schema.name in _SCHEMAS:
        raise RuntimeError(f"operator {schema.name} is declared twice")
    _SCHEMAS[schema.name] = schema
    return schema


def _registering(make: Callable[_Fields, OperatorSchema]) -> Callable[_Fields, OperatorSchema]:
    def declare_operator(*args: _Fields.args, **fields: _Fields.kwargs) -> OperatorSchema:
        return register(make(*args, **fields))

    return declare_operator


#: Declares an operator: takes the fields of an `OperatorSchema`, which it adds to the registry and returns.
declare_operator = _registering(OperatorSchema)


def implements(schema: OperatorSchema, *devices: str) -> Callable[[_Class], _Class]:
    """Return a class decorator that registers the class as the implementation of an operator on devices.

    Raises:
        RuntimeError: the operator doesn't declare a device, or the traits of the class contradict each other.
    """
    unknown = set(devices) - set(schema.devices)
    if unknown:
        raise RuntimeError(f"operator {schema.name} doesn't declare {', '.join(sorted(unknown))}")

    def add(cls: _Class) -> _Class:
        cls.traits.check(schema.name, cls.supported_traits)
        for device in devices:
            _IMPLEMENTATIONS[schema.name, device] = cls
        return cls

    return add


def implements_with(schema: OperatorSchema, attribute: str, **bases: type[Any]) -> Callable[[_Class], _Class]:
    """Return a class decorator that makes the implementations of an operator of base classes and the decorated class.

    The decorated class must be in the module that declares the operator: a server imports only that module.

    Args:
        schema: the operator.
        attribute: attribute of the base classes for the decorated class.
        **bases: the base class for each device. Devices that the operator doesn't declare are skipped.
    """

    def add(part: _Class) -> _Class:
        for device in set(bases) & set(schema.devices):
            fields = {attribute: part, "__doc__": part.__doc__, "__module__": part.__module__}
            implements(schema, device)(type(part.__name__.lstrip("_") + device.title(), (bases[device],), fields))
        return part

    return add


def lookup(name: str) -> OperatorSchema:
    """Return the schema of an operator.

    Raises:
        KeyError: the operator doesn't exist.
    """
    return _SCHEMAS[name]


def has_schema(name: str) -> bool:
    """Return whether an operator exists."""
    return name in _SCHEMAS


def implementation(name: str, device: str) -> type[Any]:
    """Return the class that implements an operator on a device."""
    return _IMPLEMENTATIONS[name, device]


def has_implementation(name: str, device: str) -> bool:
    """Return whether an operator has an implementation for a device."""
    return (name, device) in _IMPLEMENTATIONS


def modules_of(operators: Collection[str]) -> list[str]:
    """Return the modules whose import registers operators, with their implementations for all devices."""
    return sorted({cls.__module__ for (name, _), cls in _IMPLEMENTATIONS.items() if name in operators})


def all_schemas() -> tuple[OperatorSchema, ...]:
    """Return all schemas, sorted by name."""
    return tuple(_SCHEMAS[name] for name in sorted(_SCHEMAS))
