"""Private functions of NVIDIA's package that scripts use nevertheless: names of operators, and sorting of operands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from dali_proxy.pipeline import types
from dali_proxy.pipeline._catalog import all_schemas
from dali_proxy.pipeline._declaration.names import schema_name
from dali_proxy.pipeline._graph import DataNode
from dali_proxy.pipeline.errors import ArgumentTypeError

Class = TypeVar("Class", bound=type)

_WORDS = {"BBox": "Bbox", "MXNet": "Mxnet", "TFRecord": "Tfrecord"}


def not_iterable(cls: Class) -> Class:
    """Make the objects of a class that has ``__iter__`` not iterable. Returns the class."""
    cls.__iter__ = None  # type: ignore[attr-defined]
    Iterable._abc_caches_clear()  # type: ignore[attr-defined]  # earlier answers of isinstance()
    return cls


def is_cupy_array(value: Any) -> bool:
    """Return whether a value is an array of CuPy. This doesn't import CuPy."""
    return any(cls.__module__.partition(".")[0] == "cupy" and cls.__name__ == "ndarray" for cls in type(value).__mro__)


def tensor_subscript(data: Any, **arguments: Any) -> Any:
    """Return ``data[...]`` for a data node.

    Args:
        data: the data node.
        **arguments: for a dimension `n`, its index `at_n`, or the parts `lo_n`, `hi_n` and `step_n` of a slice.
    """
    last = max((int(name.rpartition("_")[2]) for name in arguments), default=-1)
    key = [
        arguments[f"at_{axis}"]
        if f"at_{axis}" in arguments
        else slice(*(arguments.get(f"{part}_{axis}") for part in ("lo", "hi", "step")))
        for axis in range(last + 1)
    ]
    return data[tuple(key)]


def to_snake_case(name: str) -> str:
    """Return the name of a class in lower case, with underscores between the words."""
    for word, single in _WORDS.items():
        name = name.replace(word, single)
    name = re.sub("(?<=[A-Za-z0-9])(?=[A-Z][a-z])|(?<=[a-z])(?=[A-Z])", "_", name)
    return name.lower()


def op_name(name: str, api: str = "fn") -> str:
    """Return the path of an operator below `fn` or `ops`, given the name of its schema, such as "readers__File"."""
    *folders, last = name.split("__")
    return ".".join([*folders, to_snake_case(last) if api == "fn" else last])


def discover_ops() -> None:
    """Do nothing: all operators are known."""


def all_registered_ops() -> set[str]:
    """Return the names of the schemas of all operators."""
    return {schema_name(schema.name) for schema in all_schemas() if not schema.hidden}


def group_inputs(inputs: Sequence[Any], edge_type: type = DataNode) -> tuple[list[tuple[str, int]], Any, Any, Any]:
    """Sort operands of an arithmetic expression.

    Returns:
        The kind of each operand ("edge", "integer" or "real") and its position among those of its kind; the data
        nodes; the integers; the real numbers. Kinds of numbers without an operand are None.

    Raises:
        ArgumentTypeError: an operand is neither a data node nor a number.
    """
    kinds: list[tuple[str, int]] = []
    groups: dict[str, list[Any]] = {"edge": [], "integer": [], "real": []}
    for operand in inputs:
        value = operand.value if isinstance(operand, types.ScalarConstant) else operand
        if not isinstance(operand, edge_type) and not isinstance(value, bool | int | float):
            raise ArgumentTypeError(
                f"Expected scalar value of type 'bool', 'int' or 'float', got {type(operand).__name__}."
            )
        dtype = operand.dtype.name if isinstance(operand, types.ScalarConstant) else type(value).__name__
        number = "real" if dtype.lower().startswith("float") else "integer"
        kind = "edge" if isinstance(operand, edge_type) else number
        kinds.append((kind, len(groups[kind])))
        groups[kind].append(operand)
    return kinds, groups["edge"], groups["integer"] or None, groups["real"] or None


def generate_input_desc(kinds: Sequence[tuple[str, int]], integers: Any, reals: Any) -> str:
    """Return the operands that `group_inputs` sorted as text, such as "&0 $0:int32"."""

    def described(kind: str, position: int) -> str:
        if kind == "edge":
            return f"&{position}"
        number = (integers if kind == "integer" else reals)[position]
        dtype = getattr(number, "dtype", types.INT32 if kind == "integer" else types.FLOAT)
        return f"${position}:{types.to_numpy_type(dtype).name}"

    return " ".join(described(*each) for each in kinds)
