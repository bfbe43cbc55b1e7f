"""`if`, `and`, `or` and `not` on data nodes, as functions that rewritten graph functions call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pipeline._graph.nodes import DataNode
from pipeline._graph.selecting import merge, select
from pipeline.errors import ArgumentTypeError, ArgumentValueError, GraphError
from pipeline.types import Constant

__all__ = ["Undefined", "all_of", "any_of", "choose", "current", "negate", "run_if"]


class Undefined:
    """Stands for a variable that some branches before the line that reads it don't assign.

    Args:
        name: name of the variable.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):  # Python itself reads these
            raise AttributeError(attribute)
        raise GraphError(self.why_no_node())

    def why_no_node(self) -> str:
        """Return the message for a line that reads the variable."""
        return f"the variable {self._name!r} doesn't have a value in every branch of an `if` before this line"


def current(name: str, read: Callable[[], Any]) -> Any:
    """Return the value of a variable, or `Undefined`."""
    try:
        return read()
    except NameError:
        return Undefined(name)


def run_if(
    condition: Any,
    then: Callable[..., Any],
    otherwise: Callable[..., Any],
    names: Sequence[str],
    values: Sequence[Any],
) -> Any:
    """Call one branch of an `if`; if the condition is a data node, call both and merge their results.

    Args:
        condition: condition of the `if`.
        then: the first branch: takes the variables and returns them, or returns the result of the graph function.
        otherwise: the second branch.
        names: names of the variables that the branches assign to.
        values: values of these variables before the `if`.
    """
    if not isinstance(condition, DataNode):
        return then(*values) if condition else otherwise(*values)
    results: list[Any] = [None, None]

    def described(number: int, branch: Callable[..., Any]) -> Callable[[], int]:
        def describe() -> int:
            results[number] = branch(*values)
            return 0

        return describe

    selector = _selector(condition)
    select(selector, [described(0, otherwise), described(1, then)])
    if not names:
        return _merged(selector, results, "the result of the graph function")
    return tuple(
        _merged(selector, [before, after], f"the variable {name!r}", name)
        for name, before, after in zip(names, *results, strict=True)
    )


def choose(condition: Any, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
    """Evaluate ``then() if condition else otherwise()``, for each sample if the condition is a data node."""
    return run_if(condition, then, otherwise, (), ())


def all_of(*operands: Callable[[], Any]) -> Any:
    """Evaluate `and`. With data nodes, later operands run only for the samples that need them."""
    first = operands[0]()
    if len(operands) == 1:
        return first
    if not isinstance(first, DataNode):
        return first and all_of(*operands[1:])
    return select(_selector(first), [lambda: Constant(False), lambda: _truth(all_of(*operands[1:]))])


def any_of(*operands: Callable[[], Any]) -> Any:
    """Evaluate `or`. With data nodes, later operands run only for the samples that need them."""
    first = operands[0]()
    if len(operands) == 1:
        return first
    if not isinstance(first, DataNode):
        return first or any_of(*operands[1:])
    return select(_selector(first), [lambda: _truth(any_of(*operands[1:])), lambda: Constant(True)])


def negate(operand: Any) -> Any:
    """Evaluate `not`, for each sample of a data node."""
    if isinstance(operand, DataNode):
        return operand == 0
    return not operand


def _selector(condition: DataNode) -> DataNode:
    if condition.device != "cpu":
        raise ArgumentValueError("a condition must be on the CPU: add .cpu()")
    return condition != 0


def _truth(value: Any) -> Any:
    if isinstance(value, DataNode):
        return value != 0
    return Constant(bool(value))


def _merged(selector: DataNode, values: Sequence[Any], label: str, name: str = "") -> Any:
    """Return the result of each sample's branch: nodes and constants, and tuples, lists and dicts of them."""
    first, second = values
    if first is second:
        return first
    if isinstance(first, Undefined) or isinstance(second, Undefined):
        return Undefined(name)
    if type(first) is type(second) and isinstance(first, tuple | list) and len(first) == len(second):
        return type(first)(_merged(selector, pair, label, name) for pair in zip(first, second, strict=True))
    if isinstance(first, dict) and isinstance(second, dict) and first.keys() == second.keys():
        return {key: _merged(selector, (first[key], second[key]), label, name) for key in first}
    if not any(isinstance(value, DataNode) for value in values) and _same(first, second):
        return first
    try:
        return merge(selector, values)
    except ArgumentTypeError as error:
        raise ArgumentTypeError(f"{label} differs between the branches of an `if`: {error}") from error


def _same(first: Any, second: Any) -> bool:
    return type(first) is type(second) and bool(np.all(first == second))
