"""Operators whose data depends on earlier batches."""

from __future__ import annotations

from dali_proxy.pipeline._declaration.registry import implementation
from dali_proxy.pipeline._graph.graph import Graph, GraphNode
from dali_proxy.pipeline._operator_api.reader import ReaderOperator


def order_keeper(graph: Graph) -> GraphNode | None:
    """Return an operator whose data depends on earlier batches, or on the order of the calls; None without one."""
    return next((node for node in graph.nodes if _keeps_order(node, graph)), None)


def _keeps_order(node: GraphNode, graph: Graph) -> bool:
    if node.schema.fed and node.name not in graph.fed_inputs:
        return True
    operator = implementation(node.operator, node.device)
    return issubclass(operator, ReaderOperator) or operator.traits.in_order
