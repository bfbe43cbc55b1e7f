"""The index of ``x[...]`` in the form that a graph stores: numbers, strings and tuples.

Each dimension has one entry: an index, or a tuple of start, stop and step. A number may be None. If it differs between
samples, the entry has the number of an index input, as a string. `ELLIPSIS` stands for the dimensions that no other
entry names, and ``("newaxis", name)`` for a new dimension.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dali_proxy.pipeline.errors import ArgumentMismatchError, ArgumentTypeError, ArgumentValueError

ELLIPSIS = "..."
NEWAXIS = "newaxis"


@dataclass(frozen=True)
class NewAxis:
    """An index that adds a dimension of extent 1; use the object `newaxis`.

    Attributes:
        name: the letter of the dimension in the layout, or an empty string.
    """

    name: str = ""

    def __call__(self, name: str) -> NewAxis:
        """Return an index that adds a dimension with a name.

        Raises:
            ArgumentMismatchError: the name isn't one character.
        """
        if not isinstance(name, str) or len(name) != 1:
            raise ArgumentMismatchError(f"the name of a dimension must be one character, not {name!r}")
        return NewAxis(name)


#: Adds a dimension: ``x[newaxis]`` and ``x[:, newaxis("C")]``. With a name it has that letter in the layout; without
#: one the result has no layout.
newaxis = NewAxis()


def index_entries(key: Any, is_node: Callable[[Any], bool]) -> tuple[tuple[Any, ...], list[Any]]:
    """Return the entries of an index, and the data nodes in it, which become index inputs.

    Raises:
        ArgumentTypeError: `key` isn't an index.
    """
    indices: list[Any] = []

    def number(value: Any) -> int | str | None:
        if value is None:
            return None
        if is_node(value):
            indices.append(value)
            return str(len(indices) - 1)
        try:
            if isinstance(value, bool):
                raise TypeError
            return operator.index(value)
        except TypeError:
            raise ArgumentTypeError(
                f"an index must be an integer, a slice, newaxis, an ellipsis or a DataNode, not {value!r}"
            ) from None

    def entry(value: Any) -> Any:
        if value is Ellipsis:
            return ELLIPSIS
        if isinstance(value, NewAxis):
            return (NEWAXIS, value.name)
        if isinstance(value, slice):
            return (number(value.start), number(value.stop), number(value.step))
        return (None, None, None) if value is None else number(value)

    entries = tuple(entry(value) for value in (key if isinstance(key, tuple) else (key,)))
    if entries.count(ELLIPSIS) > 1:
        raise ArgumentTypeError("an index can have only one ellipsis")
    if len({bool(entry[1]) for entry in entries if isinstance(entry, tuple) and entry[0] == NEWAXIS}) > 1:
        raise ArgumentValueError("either all new dimensions of an index have names, or none of them")
    return entries, indices
