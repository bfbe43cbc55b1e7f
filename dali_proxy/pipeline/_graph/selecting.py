"""Branches of a graph: each sample passes through one of them, and the results are merged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dali_proxy.pipeline._graph.branches import branch
from dali_proxy.pipeline._graph.nodes import DataNode, apply_operator, as_node
from dali_proxy.pipeline.errors import ArgumentValueError


def select(selector: DataNode, branches: Sequence[Callable[[], Any]]) -> Any:
    """Pass each sample through one of several branches, and return the merged results.

    Args:
        selector: number of the branch for each sample, on the CPU.
        branches: functions that describe a branch and return its result: a data node or constant, or a tuple of them.

    Raises:
        ArgumentValueError: the branches return different numbers of outputs, or the selector is on the GPU.
    """
    if selector.device != "cpu":
        raise ArgumentValueError("the condition of a branch must be on the CPU: add .cpu()")
    results = []
    for number, describe in enumerate(branches):
        with branch(selector, number):
            results.append(describe())
    if not any(isinstance(each, tuple) for each in results):
        return merge(selector, results)
    if len({len(each) if isinstance(each, tuple) else 1 for each in results}) > 1:
        raise ArgumentValueError("the branches return different numbers of outputs")
    return tuple(merge(selector, outputs) for outputs in zip(*results, strict=True))


def merge(selector: DataNode, results: Sequence[Any]) -> Any:
    """Return the result of each sample's branch. A node that all branches return is returned unchanged."""
    nodes = []
    for number, each in enumerate(results):
        with branch(selector, number):
            nodes.append(as_node(each, f"branch {number}"))
    if all(node is nodes[0] for node in nodes):
        return nodes[0]
    if any(node.device == "gpu" for node in nodes):
        for number, node in enumerate(nodes):
            with branch(selector, number):
                nodes[number] = node.gpu()
    return apply_operator("merge", nodes, {"selector": selector})
