"""Makes the functions of `fn` and the classes of `ops` from the declarations of operators."""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

from pipeline._declaration.schema import COMMON_ARGUMENTS, REQUIRED, Argument, OperatorSchema
from pipeline._graph.input_sets import call_operator

__all__ = ["fill_namespace", "make_class", "make_function"]

#: Classes of which DALI writes words in capitals.
_CLASS_NAMES = {
    "coco": "COCO",
    "dl_tensor_python_function": "DLTensorPythonFunction",
    "random_bbox_crop": "RandomBBoxCrop",
}


def make_function(schema: OperatorSchema) -> Callable[..., Any]:
    """Return the function of `fn` for an operator: it adds the operator to the graph."""
    if schema.function is not None:
        return schema.function

    def function(*inputs: Any, **arguments: Any) -> Any:
        return call_operator(schema, inputs, arguments)

    function.__name__ = function.__qualname__ = schema.name.rpartition(".")[2]
    function.__doc__ = _documentation(schema)
    function.__signature__ = _signature(schema)  # type: ignore[attr-defined]
    return function


def make_class(schema: OperatorSchema) -> type[Any]:
    """Return the class of `ops` for an operator: made with the constant arguments, called with inputs."""
    if schema.function is not None:
        return _class_of(schema.function, class_name(schema.name))

    def __init__(self: Any, **arguments: Any) -> None:
        self._arguments = arguments

    def __call__(self: Any, *inputs: Any, **arguments: Any) -> Any:
        return call_operator(schema, inputs, {**self._arguments, **arguments})

    name = class_name(schema.name)
    return type(name, (), {"__init__": __init__, "__call__": __call__, "__doc__": _documentation(schema)})


def _class_of(function: Callable[..., Any], name: str) -> type[Any]:
    """Return a class over a function: it is made with arguments, and called with inputs and the rest."""

    def __init__(self: Any, *values: Any, **arguments: Any) -> None:
        self._values = values
        self._arguments = arguments

    def __call__(self: Any, *inputs: Any, **arguments: Any) -> Any:
        return function(*self._values, *inputs, **{**self._arguments, **arguments})

    return type(name, (), {"__init__": __init__, "__call__": __call__, "__doc__": function.__doc__})


def class_name(path: str) -> str:
    """Return how `ops` calls an operator: "decoders.image_crop" is "ImageCrop"."""
    name = path.rpartition(".")[2]
    return _CLASS_NAMES.get(name) or "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def fill_namespace(
    module: str,
    schemas: Iterable[OperatorSchema],
    make: Callable[[OperatorSchema], Any],
    rename: Callable[[str], str],
) -> dict[str, Any]:
    """Return what a namespace module holds: operators by name, and submodules for dotted names.

    Args:
        module: full name of the namespace module; submodules are registered below it.
        schemas: operators, hidden ones excluded.
        make: makes the function or class.
        rename: makes its name from the operator's path.
    """
    top: dict[str, Any] = {}
    for schema in schemas:
        space = top
        *folders, _ = schema.name.split(".")
        for depth, folder in enumerate(folders):
            if folder not in space:
                full = ".".join([module, *folders[: depth + 1]])
                space[folder] = sys.modules[full] = types.ModuleType(full, f"Operators of `{full}`.")
            space = vars(space[folder])
        made = make(schema)
        made.__module__ = ".".join([module, *folders])
        space[rename(schema.name)] = made
    return top


def _documentation(schema: OperatorSchema) -> str:
    lines = [schema.doc.strip(), "", f"Devices: {', '.join(schema.devices)}.", "", "Args:"]
    for declared in schema.inputs:
        lines.append(f"    {declared.name}: {declared.doc}")
    for argument in sorted(schema.arguments, key=lambda argument: argument.name):
        lines.append(f"    {argument.name} ({_kind(argument)}): {argument.doc}")
    lines.append("    device (str): where the operator runs; by default where its inputs are.")
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
