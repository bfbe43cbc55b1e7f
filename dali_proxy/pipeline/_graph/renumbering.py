"""Nodes of a graph that are used in another one: edges change, names, lines and random numbers stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dali_proxy.pipeline._graph.graph import Edge, Graph, GraphNode, check_branches, check_names


def renumbered(node: GraphNode, index: int, moved: Mapping[Edge, Edge]) -> GraphNode:
    """Return a node for another graph. It draws the same random numbers.

    Args:
        node: the node.
        index: its number in the other graph.
        moved: the edges of the other graph by those of the node's graph.
    """
    return replace(
        node,
        index=index,
        inputs=tuple(moved[edge] for edge in node.inputs),
        argument_inputs={name: moved[edge] for name, edge in node.argument_inputs.items()},
        branch=tuple((moved[edge], value) for edge, value in node.branch),
        twin=None,
        stream=node.random_stream,
    )


def checked_graph(nodes: Sequence[GraphNode], outputs: Sequence[Edge]) -> Graph:
    """Return the graph of these nodes and outputs.

    Raises:
        GraphError: names or branches are inconsistent.
    """
    check_names(nodes)
    check_branches(nodes, outputs)
    return Graph(tuple(nodes), tuple(outputs))
