"""`if`, `and`, `or`, `not` and chained comparisons on data nodes, as functions that rewritten graph functions call."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._graph.branches import branch
from dali_proxy.pipeline._graph.nodes import DataNode, apply_operator, as_node, constant_node
from dali_proxy.pipeline._graph.selecting import merge, select
from dali_proxy.pipeline.errors import ArgumentValueError, GraphError

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "Is": operator.is_,
    "IsNot": operator.is_not,
    "In": lambda item, container: item in container,
    "NotIn": lambda item, container: item not in container,
}


class Unusable:
    """Stands for a variable without a value that can be used: the line that reads it raises an error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):  # Python itself reads these
            raise AttributeError(attribute)
        raise self._error

    def _raise(self, *_: Any) -> Any:
        raise self._error

    __bool__ = __call__ = __getitem__ = __iter__ = __len__ = _raise

    def why_no_node(self) -> Exception:
        """Return the error for a line that reads the variable."""
        return self._error


def is_unusable(value: Any) -> bool:
    """Return whether a value stands for a variable without a value."""
    return isinstance(value, Unusable)


def current(name: str, read: Callable[[], Any]) -> Any:
    """Return the value of a variable, or `Unusable` if it has none."""
    try:
        return read()
    except (NameError, AttributeError, LookupError, TypeError):
        return Unusable(UnboundLocalError(f"{name!r} is used before assignment"))


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

    Raises:
        GraphError: the branches return results that can't be merged.
    """
    if not isinstance(condition, DataNode):
        return then(*values) if condition else otherwise(*values)
    selector = truth(condition)
    results: list[Any] = [None, None]
    for value, describe in ((1, then), (0, otherwise)):  # in the order of the user's lines, which may have side effects
        with branch(selector, value):
            results[value] = describe(*values)
    if names:
        return tuple(_merged_variable(selector, pair, name) for name, *pair in zip(names, *results, strict=True))
    for result, name in zip(results, ("else", "if"), strict=True):
        if result is None and any(each is not None for each in results):
            raise GraphError(f"{_INCONSISTENT} The `{name}` branch must also have a return statement.")
    return _merged(selector, results)


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
    left = truth(first, "and", "left")
    return select(left, [lambda: constant_node(False), lambda: truth(all_of(*operands[1:]), "and", "right")])


def any_of(*operands: Callable[[], Any]) -> Any:
    """Evaluate `or`. With data nodes, later operands run only for the samples that need them."""
    first = operands[0]()
    if len(operands) == 1:
        return first
    if not isinstance(first, DataNode):
        return first or any_of(*operands[1:])
    left = truth(first, "or", "left")
    return select(left, [lambda: truth(any_of(*operands[1:]), "or", "right"), lambda: constant_node(True)])


def negate(operand: Any) -> Any:
    """Evaluate `not`, for each sample of a data node."""
    return truth(operand, "not") if isinstance(operand, DataNode) else not operand


def compare(first: Any, *rest: tuple[str, Callable[[], Any]]) -> Any:
    """Evaluate a chained comparison such as ``a < b < c``, as ``a < b and b < c``.

    Args:
        first: first operand.
        *rest: name of each comparison in Python's syntax tree, and the function that evaluates its right operand.
    """
    (name, evaluate), *later = rest
    second = evaluate()
    result = _COMPARISONS[name](first, second)
    return all_of(lambda: result, lambda: compare(second, *later)) if later else result


def truth(value: Any, expression: str = "if", side: str = "") -> DataNode:
    """Return a condition or an operand of a logical expression as bools, for `not` inverted.

    Args:
        value: a data node or a constant.
        expression: "if", "not", "and" or "or".
        side: "left" or "right" for an operand of "and" and "or".

    Raises:
        ArgumentValueError: the node is on the GPU.
    """
    node = as_node(value, f"an operand of `{expression}`")
    if node.device != "cpu":
        if expression == "if":
            raise ArgumentValueError(
                "Invalid device \"gpu\" for argument 'predicate' of operator 'nvidia.dali.fn._conditional.split'. The "
                "condition of an `if` must be on the CPU: add .cpu()"
            )
        raise ArgumentValueError(
            f"Logical expression `{expression}` is restricted to scalar (0-d tensors) inputs of `bool` type, that are "
            f"placed on CPU. Got a GPU input{f' as the {side} argument' if side else ''} in logical expression."
        )
    result = apply_operator("truth", (node,), {"expression": expression, "side": side})
    assert isinstance(result, DataNode)
    return result


_INCONSISTENT = (
    "Encountered inconsistent outputs out of the `if/else` control flow statement. Variables need to be initialized in "
    "every code path (both `if` branches)."
)


def _merged_variable(selector: DataNode, results: Sequence[Any], name: str) -> Any:
    """Return the value of a variable after an `if`. If it has none, only lines that read the variable fail."""
    for result, side in zip(results, ("else", "if"), strict=True):
        if isinstance(result, Unusable):
            if isinstance(results[0], Unusable) and isinstance(results[1], Unusable):
                return result
            return Unusable(
                GraphError(f"{_INCONSISTENT} Variable '{name}' must also be initialized in the `{side}` branch.")
            )
    try:
        return _merged(selector, results)
    except GraphError as error:
        return Unusable(type(error)(f"the variable {name!r} differs between the branches of an `if`: {error}"))


def _merged(selector: DataNode, values: Sequence[Any]) -> Any:
    """Return the result of each sample's branch: nodes and constants, and tuples, lists and dicts of them."""
    first, second = values
    if first is second:
        return first
    if any(isinstance(value, tuple | list | dict) for value in values):
        return _merged_collections(selector, first, second)
    if not any(isinstance(value, DataNode) for value in values) and _same(first, second):
        return first
    if first is None or second is None:
        raise ArgumentValueError(_divergent(first, second))
    return merge(selector, values)


def _merged_collections(selector: DataNode, first: Any, second: Any) -> Any:
    if isinstance(first, dict) and isinstance(second, dict) and first.keys() == second.keys():
        return {key: _merged(selector, (first[key], second[key])) for key in first}
    if type(first) is not type(second) or isinstance(first, dict) or len(first) != len(second):
        raise ArgumentValueError(_divergent(first, second))
    items = [_merged(selector, pair) for pair in zip(first, second, strict=True)]
    return type(first)(*items) if hasattr(first, "_fields") else type(first)(items)


def _divergent(otherwise: Any, then: Any) -> str:
    return (
        "Divergent data found in different branches of `if/else` control flow statement. Variables in all code paths "
        "are merged into common output batches. The values assigned to a given variable need to have the same nesting "
        "structure in every code path (both `if` branches).\n"
        f"'If' output structure: {_structure(then)}\n"
        f"'Else' output structure: {_structure(otherwise)}"
    )


def _structure(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_structure(item)}" for key, item in value.items()) + "}"
    if isinstance(value, tuple | list):
        inner = ", ".join(map(_structure, value))
        return f"({inner})" if isinstance(value, tuple) else f"[{inner}]"
    return "None" if value is None else "*"


def _same(first: Any, second: Any) -> bool:
    try:
        return type(first) is type(second) and bool(np.all(first == second))
    except Exception:  # noqa: BLE001 - objects that can't be compared differ
        return False
