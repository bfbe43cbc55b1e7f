"""Find equal operators of a step, such as those of several views of the same images: they run as one."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

from pipeline._compiler.plan import BatchStep
from pipeline._graph.graph import GraphNode
from pipeline._graph.numbering import hashable
from pipeline._operator_api.pixel_operator import PixelOperator

__all__ = ["equal_operators"]


def equal_operators(steps: Iterable[BatchStep], operators: Mapping[int, Any]) -> dict[int, tuple[GraphNode, ...]]:
    """Return groups of equal operators of each step, by the index of the first one.

    They have the same constant arguments, and their inputs are one output, or the outputs of a group of equal
    operators. So all of them can run when the first one does. They may be in different branches.

    Args:
        steps: steps of a plan.
        operators: implementations of the nodes, by index.
    """
    return {group[0].index: group for step in steps for group in _groups(step.nodes, operators)}


def _groups(nodes: Iterable[GraphNode], operators: Mapping[int, Any]) -> Iterator[tuple[GraphNode, ...]]:
    groups: dict[Hashable, list[GraphNode]] = {}
    firsts: dict[int, int] = {}  # by index: the first operator of the group
    for node in nodes:
        operator = operators[node.index]
        if not isinstance(operator, PixelOperator) or not operator.traits.per_sample or len(node.inputs) != 1:
            continue
        (source,) = node.inputs
        origin = firsts.get(source.node, source)
        key = (origin, node.operator, hashable(node.arguments), frozenset(node.argument_inputs))
        group = groups.setdefault(key, [])
        group.append(node)
        firsts[node.index] = group[0].index
    return (tuple(group) for group in groups.values() if len(group) > 1)
