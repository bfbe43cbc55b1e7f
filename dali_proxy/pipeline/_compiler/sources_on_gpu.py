"""Create constants and random numbers on the GPU, if only the GPU reads them, instead of copying them there."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from dali_proxy.pipeline._declaration.schema import Role
from dali_proxy.pipeline._graph.graph import Edge, Graph, GraphNode


def sources_on_gpu(graph: Graph) -> Graph:
    """Return a graph with the same outputs, in which no operator reads some of the copies to the GPU any more.

    The nodes keep their numbers, and thus their random numbers.
    """
    readers: dict[int, list[GraphNode]] = defaultdict(list)
    for node in graph.nodes:
        for edge in node.sources:
            readers[edge.node].append(node)
    outputs = {edge.node for edge in graph.outputs}
    moved: dict[Edge, Edge] = {}
    for node in graph.nodes:
        copies = readers[node.index]
        is_copied = bool(copies) and all(
            copy.schema.role is Role.COPY_TO_GPU and copy.branch == node.branch for copy in copies
        )
        if is_copied and node.index not in outputs and _has_the_same_bits(node):
            moved |= {Edge(copy.index): Edge(node.index) for copy in copies}
    if not moved:
        return graph
    sources = {edge.node for edge in moved.values()}
    nodes = [
        replace(
            node,
            device="gpu" if node.index in sources else node.device,
            inputs=tuple(moved.get(edge, edge) for edge in node.inputs),
        )
        for node in graph.nodes
    ]
    return Graph(tuple(nodes), tuple(moved.get(edge, edge) for edge in graph.outputs))


def _has_the_same_bits(node: GraphNode) -> bool:
    """Return whether an operator computes the same on the GPU as on the CPU, and needs no data from the CPU there."""
    if node.device != "cpu" or node.sources:
        return False
    role = node.schema.role
    return role is Role.CONSTANT or (role is Role.DISTRIBUTION and "shape" in node.arguments)
