"""Build the functions of `fn` and the classes of `ops` from the schemas of operators."""

from __future__ import annotations

import importlib
import inspect
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

from dali_proxy.pipeline._declaration.names import class_name, schema_name
from dali_proxy.pipeline._declaration.schema import COMMON_ARGUMENTS, REQUIRED, Argument, OperatorSchema
from dali_proxy.pipeline._declaration.suggestions import missing_operator
from dali_proxy.pipeline._graph.input_sets import call_operator
from dali_proxy.pipeline._operator_api.operator_class import OperatorClass


def make_function(schema: OperatorSchema) -> Callable[..., Any]:
    """Return the function of `fn` for an operator. A call adds the operator to the graph."""
    if schema.function is not None:
        schema.function._schema_name = schema_name(schema.name)  # type: ignore[attr-defined]
        return schema.function

    def function(*inputs: Any, **arguments: Any) -> Any:
        return call_operator(schema, inputs, arguments)

    function.__name__ = function.__qualname__ = schema.name.rpartition(".")[2]
    function.__doc__ = _documentation(schema)
    function.__signature__ = _signature(schema)  # type: ignore[attr-defined]
    function._schema_name = schema_name(schema.name)  # type: ignore[attr-defined]  # DALI's name
    return function


def make_class(schema: OperatorSchema) -> type[Any]:
    """Return the class of `ops` for an operator. It is created with constant arguments and called with inputs."""
    if schema.function is not None and schema.fed:  # the function has other arguments than the operator
        return class_of(schema.function, schema)
    return type(class_name(schema.name), (OperatorClass,), {**_attributes(schema), "__doc__": _documentation(schema)})


def class_of(function: Callable[..., Any], schema: OperatorSchema) -> type[Any]:
    """Return a class around a function. It is created with arguments, and called with inputs and further arguments."""

    def __init__(self: Any, *values: Any, **arguments: Any) -> None:
        self._values = values
        self._arguments = arguments

    def __call__(self: Any, *inputs: Any, **arguments: Any) -> Any:
        return function(*self._values, *inputs, **{**self._arguments, **arguments})

    methods = {"__init__": __init__, "__call__": __call__, "__doc__": function.__doc__}
    return type(class_name(schema.name), (OperatorClass,), {**_attributes(schema), **methods})


def _attributes(schema: OperatorSchema) -> dict[str, Any]:
    return {"schema_name": schema_name(schema.name), "_declared": schema}


def fill_namespace(
    module: str, schemas: Iterable[OperatorSchema], make: Callable[[OperatorSchema], Any], rename: Callable[[str], str]
) -> dict[str, Any]:
    """Return the contents of a namespace module: operators by name, and submodules for dotted names.

    Submodules are registered below `module`. `make` returns the entry of a schema, and `rename` its name, for a path.
    """
    top: dict[str, Any] = {}
    known: list[str] = []
    for schema in schemas:
        space = top
        *folders, _ = schema.name.split(".")
        for depth, folder in enumerate(folders):
            if folder not in space:
                full = ".".join([module, *folders[: depth + 1]])
                space[folder] = sys.modules[full] = _Namespace(full, f"Operators of `{full}`.")
                space[folder]._known = known
            space = vars(space[folder])
        entry = make(schema)
        entry.__module__ = ".".join([module, *folders])
        space[rename(schema.name)] = entry
        known.append(".".join([*folders, rename(schema.name)]))
    return top


class _Namespace(types.ModuleType):
    """A module of operators, whose errors suggest names."""

    _known: list[str]

    def __getattr__(self, name: str) -> Any:
        raise missing_operator(self.__name__, name, () if name.startswith("_") else self._known)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the name: functions of a script that are pickled by value refer to the module."""
        return importlib.import_module, (self.__name__,)


def _documentation(schema: OperatorSchema) -> str:
    lines = [schema.doc.strip(), "", f"Devices: {', '.join(schema.devices)}.", "", "Args:"]
    for declared in schema.inputs:
        lines.append(f"    {declared.name}: {declared.doc}")
    for argument in sorted(schema.arguments, key=lambda argument: argument.name):
        lines.append(f"    {argument.name} ({_kind(argument)}): {argument.doc}")
    lines.append("    device (str): device of the operator; by default that of its inputs.")
    lines.append("    name (str): name of the operator in messages and statistics.")
    for argument in COMMON_ARGUMENTS:
        lines.append(f"    {argument.name} ({_kind(argument)}): {argument.doc}")
    return "\n".join(lines) + "\n"


def _kind(argument: Argument) -> str:
    text = argument.kind.value
    if argument.per_sample:
        text += " or DataNode"
    if argument.default is REQUIRED:
        return text
    return f"{text}, default {argument.default!r}"


def _signature(schema: OperatorSchema) -> inspect.Signature:
    kinds = inspect.Parameter
    parameters = [
        kinds(declared.name, kinds.POSITIONAL_ONLY, default=None if declared.optional else kinds.empty)
        for declared in schema.inputs
    ]
    if schema.variadic:
        parameters[-1] = kinds(schema.inputs[-1].name, kinds.VAR_POSITIONAL)
    for argument in sorted(schema.arguments, key=lambda argument: argument.name):
        default = kinds.empty if argument.default is REQUIRED else argument.default
        parameters.append(kinds(argument.name, kinds.KEYWORD_ONLY, default=default))
    for name in ("device", "name"):
        parameters.append(kinds(name, kinds.KEYWORD_ONLY, default=None))
    parameters += [kinds(item.name, kinds.KEYWORD_ONLY, default=item.default) for item in COMMON_ARGUMENTS]
    return inspect.Signature(parameters)
