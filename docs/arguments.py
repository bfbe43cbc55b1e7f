"""Compares the arguments of operators with those that NVIDIA DALI documents."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from dali_proxy._nvidia.differences import ARGUMENTS
from dali_proxy.pipeline._catalog import all_schemas
from dali_proxy.pipeline._declaration.schema import REQUIRED, Argument

__all__ = ["differences", "look_up_arguments", "rows"]

#: The documentation of arguments without an effect starts with these words. Their defaults don't matter either.
IDLE = ("Accepted for compatibility", "Deprecated")
#: Values that DALI's defaults may have if they mean "no default".
_NOTHING = (None, "", False, (), (0,))


def look_up_arguments(function: Any) -> dict[str, dict[str, Any]]:
    """Return the arguments of an operator of DALI's `fn`: their defaults, and the kinds of values that they take."""
    from nvidia.dali.backend import GetSchema

    schema = GetSchema(function._schema_name)
    return {
        name: {
            "default": schema.GetArgumentDefaultValueString(name) if schema.HasArgumentDefaultValue(name) else None,
            "required": not schema.IsArgumentOptional(name),
            "takes": "constant"
            if not schema.IsTensorArgument(name)
            else "frame"
            if schema.ArgSupportsPerFrameInput(name)
            else "sample",
        }
        for name in schema.GetArgumentNames()
    }


def differences(listed: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield each difference: the operator, its argument, and DALI's version of it.

    Args:
        listed: the result of `docs.operators.look_up`.
    """
    for schema in all_schemas():
        theirs = listed["arguments"].get(schema.name)
        if schema.hidden or schema.alias_of is not None or theirs is None:
            continue
        for name, their in theirs.items():
            ours = schema.argument(name)
            if ours is None:
                yield schema.name, name, "exists"
            elif their["takes"] != "constant" and not ours.per_sample:
                yield schema.name, name, "may differ from sample to sample"
            elif their["required"] != (ours.default is REQUIRED):
                yield schema.name, name, "required" if their["required"] else "not required"
            elif not _same(their["default"], ours):
                yield schema.name, name, f"{_value(their['default'])!r} by default"


def rows(listed: dict[str, Any]) -> list[str]:
    """Return the rows of the table of differences."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for operator, name, text in differences(listed):
        found.setdefault((name, text, reason(operator, name) or "?"), []).append(operator)
    return [
        f"| `{name}` | {', '.join(f'`{operator}`' for operator in operators)} | {text} | {why} |"
        for (name, text, why), operators in sorted(found.items())
    ]


def reason(operator: str, name: str) -> str | None:
    """Return why an argument differs: the reason for this operator, or for all operators."""
    return ARGUMENTS.get(f"{operator}.{name}", ARGUMENTS.get(name))


def _value(text: str | None) -> Any:
    """Return one of DALI's defaults as a Python value: lists become tuples, without an empty last element."""
    if text is None:
        return None
    try:
        value = ast.literal_eval(re.sub(r",\s*\]", "]", text))
    except (ValueError, SyntaxError):
        return text
    return tuple(value) if isinstance(value, list) else value


def _same(text: str | None, ours: Argument) -> bool:
    theirs, own = _value(text), None if ours.default is REQUIRED else ours.default
    if ours.doc.startswith(IDLE) or (theirs in _NOTHING and own in _NOTHING):
        return True
    if hasattr(own, "name"):  # DALI writes an enum as its number or its name
        return str(theirs) in (str(int(own)), own.name, f"DALIDataType.{own.name}", f"DALIImageType.{own.name}")
    return bool(theirs == own)
