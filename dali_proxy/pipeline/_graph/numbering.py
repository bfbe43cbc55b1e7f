"""Numbers the nodes of a graph; operator calls that compute the same become one node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration.schema import Role
from dali_proxy.pipeline._graph.branches import Branch
from dali_proxy.pipeline._graph.nodes import DataNode, OperatorCall
from dali_proxy.pipeline.errors import GraphError

_LARGEST_CONSTANT = 16  # elements of a constant that counts as a scalar
_MAY_FAIL = ("floordiv", "mod")  # integers can't be divided by zero


class Numbering:
    """The numbers of the operator calls on which outputs depend.

    Calls with equal operators, arguments and inputs share a number (common subexpression elimination). Not those with
    a name, side effects or fed data, nor those that draw random numbers without a seed.

    Arithmetic on random scalars and constants leaves its branch: equal calls of several branches become one, and the
    values of all samples cost no more than those of the branch.

    Args:
        outputs: outputs of the graph.
        preserved: calls to keep, even if no output needs them.

    Attributes:
        calls: the first call with each number. The order is topological.
        branches: the branch in which each of them runs.
        numbers: the number of each call, by its order.
    """

    def __init__(self, outputs: Sequence[DataNode], preserved: Iterable[OperatorCall] = ()) -> None:
        self.calls: list[OperatorCall] = []
        self.branches: list[Branch] = []
        self.numbers: dict[int, int] = {}
        self._same: dict[tuple[int, int], tuple[int, int]] = {}  # outputs of merges whose inputs are all the same
        self._scalars: set[int] = set()
        known: dict[Any, int] = {}
        for call in _reachable([*(_source(node) for node in outputs), *preserved]):
            branch = self._branch(call)
            key = self._key(call, branch)
            number = known.setdefault(key, len(self.calls)) if _mergeable(call) else len(self.calls)
            if number == len(self.calls):
                self.calls.append(call)
                self.branches.append(branch)
                if self._is_scalar(call):
                    self._scalars.add(number)
            self.numbers[call.order] = number
            if call.schema.merges and len(found := {self.edge(node) for node in call.inputs}) == 1:
                self._same[number, 0] = found.pop()

    def edge(self, node: DataNode) -> tuple[int, int]:
        """Return the number of the call whose output a node is, and that of the output."""
        found = self.numbers[_source(node).order], node.index
        return self._same.get(found, found)

    def _is_scalar(self, call: OperatorCall) -> bool:
        """Return whether a call computes numbers that depend on no data, and can't fail for a sample."""
        if call.schema.role is Role.CONSTANT:
            return bool(call.arguments["value"].size <= _LARGEST_CONSTANT)
        if call.schema.role is Role.DISTRIBUTION:
            return not call.inputs and not call.argument_inputs and call.arguments.get("shape") is None
        return (
            call.schema.role is Role.ARITHMETIC
            and call.arguments["operation"] not in _MAY_FAIL
            and all(self.edge(node)[0] in self._scalars for node in call.inputs)
        )

    def _branch(self, call: OperatorCall) -> Branch:
        if not call.branch or call.schema.role is not Role.ARITHMETIC or not self._is_scalar(call):
            return call.branch
        return max((self.branches[self.edge(node)[0]] for node in call.inputs), key=len)

    def _key(self, call: OperatorCall, branch: Branch) -> Any:
        """Return a value that is equal for calls that compute the same."""
        return (
            call.schema.name,
            call.device,
            tuple(map(self.edge, call.inputs)),
            hashable(call.arguments),
            tuple(sorted((key, self.edge(node)) for key, node in call.argument_inputs.items())),
            tuple((self.edge(node), value) for node, value in branch),
        )


def _mergeable(call: OperatorCall) -> bool:
    schema, arguments = call.schema, call.arguments
    if call.name or schema.fed or schema.side_effects or arguments.get("preserve"):
        return False
    seed = arguments.get("seed")
    return not (schema.random or schema.is_reader) or (seed is not None and seed >= 0)


def hashable(value: Any) -> Any:
    """Return a key that equal constant arguments share."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, Mapping):
        return tuple(sorted((key, hashable(item)) for key, item in value.items()))
    if isinstance(value, list | tuple):
        return tuple(map(hashable, value))
    return type(value), value if isinstance(value, bool | int | float | str) else id(value)


def _source(node: DataNode) -> OperatorCall:
    if node.source is None:
        raise GraphError(f"{node!r} isn't the output of an operator")
    return node.source


def _reachable(roots: Sequence[OperatorCall]) -> list[OperatorCall]:
    seen: dict[int, OperatorCall] = {}
    pending = list(roots)
    while pending:
        call = pending.pop()
        if id(call) not in seen:
            seen[id(call)] = call
            selectors = (node for node, _ in call.branch)
            pending.extend(_source(node) for node in (*call.inputs, *call.argument_inputs.values(), *selectors))
    # Inputs are called before the operators that read them, so the order of the calls is topological.
    return sorted(seen.values(), key=lambda call: call.order)
