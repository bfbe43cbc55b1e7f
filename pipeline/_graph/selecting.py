"""Branches of a graph: each sample goes through one of several, and what they make is put together again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pipeline._graph.branches import branch
from pipeline._graph.nodes import DataNode, apply_operator, as_node
from pipeline.errors import ArgumentValueError

__all__ = ["merge", "select"]


def select(selector: DataNode, makers: Sequence[Callable[[], Any]]) -> Any:
    """Have each sample go through one of several descriptions.

    Args:
        selector: on the CPU: for each sample, which of the makers is meant.
        makers: each describes a branch and returns what it makes: a data node or constant, or a tuple of them.

    Returns:
        A data node for what the branches return, or a tuple of them.

    Raises:
        ArgumentValueError: the branches return different numbers of outputs, or the selector is on the GPU.
    """
    if selector.device != "cpu":
        raise ArgumentValueError("the condition of a branch must be on the CPU: add .cpu()")
    made = []
    for number, maker in enumerate(makers):
        with branch(selector, number):
            made.append(maker())
    if not any(isinstance(each, tuple) for each in made):
        return merge(selector, made)
    if len({len(each) if isinstance(each, tuple) else 1 for each in made}) > 1:
        raise ArgumentValueError("the branches return different numbers of outputs")
    return tuple(merge(selector, outputs) for outputs in zip(*made, strict=True))


def merge(selector: DataNode, made: Sequence[Any]) -> Any:
    """Return, for each sample, what the branch made that it was in; a node that all branches return, as it is."""
    nodes = []
    for number, each in enumerate(made):
        with branch(selector, number):
            nodes.append(as_node(each, f"branch {number}"))
    if all(node is nodes[0] for node in nodes):
        return nodes[0]
    if any(node.device == "gpu" for node in nodes):
        for number, node in enumerate(nodes):
            with branch(selector, number):
                nodes[number] = node.gpu()
    return apply_operator("merge", nodes, {"selector": selector})
