"""Split a graph in two, so that two processes can run it: one decodes, the other does the work of the GPU.

Both halves together compute the same values as the whole graph: nodes keep their random streams, names and lines.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from pipeline._compiler.per_frame_arguments import may_be_sequence
from pipeline._declaration.registry import implementation
from pipeline._graph.graph import Edge, Graph, GraphNode
from pipeline._graph.on_cpu import has_cpu_form
from pipeline._graph.renumbering import checked_graph, renumbered
from pipeline._operator_api.reader import Reader
from pipeline.errors import GraphError

__all__ = ["Halves", "cut", "halves_by_device", "on_cpu_first"]

# An operator that is cheaper to run in both halves than to send with every batch.
_CONSTANT = "constant_value"


@dataclass(frozen=True, eq=False)
class Halves:
    """The two halves of a graph.

    Attributes:
        first: first half. Its outputs are the inputs of the second half.
        second: second half. Its inputs, in order, are the outputs of `first`; its outputs are those of the whole graph.
        crossing: names of the second half's inputs, in order.
    """

    first: Graph
    second: Graph
    crossing: tuple[str, ...]


def halves_by_device(graph: Graph) -> Halves:
    """Split a graph between CPU and GPU: the first half runs on the CPU only.

    Decoders with ``device="mixed"`` decode on the CPU instead. Operators on the CPU that read results of the GPU
    belong to the second half.

    Raises:
        GraphError: an operator doesn't allow this split; the message names it and the user's line.
    """
    return cut(on_cpu_first(graph), lambda node: node.device == "gpu")


def on_cpu_first(graph: Graph) -> Graph:
    """Return a graph that replaces each operator from CPU to GPU by a CPU operator and a copy to the GPU.

    Raises:
        GraphError: such an operator has no implementation for the CPU; the message names it and the user's line.
    """
    nodes: list[GraphNode] = []
    moved: dict[Edge, Edge] = {}
    for node in graph.nodes:
        made = renumbered(node, len(nodes), moved)
        nodes.append(made)
        for output in range(node.output_count):
            moved[Edge(node.index, output)] = Edge(made.index, output)
        if not _brings_data(node):
            continue
        nodes[-1] = replace(made, device="cpu")
        for output in range(node.output_count):
            copy = GraphNode(
                index=len(nodes),
                operator="copy_to_gpu",
                name=f"__{node.name}_{output}_to_gpu",
                device="gpu",
                inputs=(Edge(made.index, output),),
                location=node.location,
                branch=made.branch,
            )
            nodes.append(copy)
            moved[Edge(node.index, output)] = Edge(copy.index)
    return checked_graph(nodes, [moved[edge] for edge in graph.outputs])


def cut(graph: Graph, is_late: Callable[[GraphNode], bool]) -> Halves:
    """Split a graph in two.

    Nodes that depend on the second half belong to it too. So do nodes in a branch whose results the second half
    reads, because only batches with all samples can cross.

    Args:
        graph: the graph; it stays unchanged.
        is_late: function that returns whether a node must be in the second half.

    Raises:
        GraphError: a node of the second half reads a data set, whose order would change.
    """
    late = _late(graph, is_late)
    for node in graph.nodes:
        if node.index in late and _reads_data(node):
            raise GraphError(
                f"{node.display} reads data, so it must run in the same process as the first operators of the graph"
                f"\n  at {node.location}"
            )
    sources = {edge for node in graph.nodes if node.index in late for edge in node.sources if edge.node not in late}
    constants = {edge.node for edge in sources if graph.nodes[edge.node].operator == _CONSTANT}
    read = {edge for edge in sources if edge.node not in constants}
    # Outputs of the first half cross separately: users may write to them while the second half reads the other copy.
    returned = [number for number, edge in enumerate(graph.outputs) if edge.node not in late]
    crossing = [*sorted(read), *(graph.outputs[number] for number in returned)]

    first: list[GraphNode] = []
    moved: dict[Edge, Edge] = {}
    for node in graph.nodes:
        if node.index not in late:
            _add(node, first, moved)
    first_graph = checked_graph(first, [moved[edge] for edge in crossing])

    names = tuple(f"__crossing_{number}" for number in range(len(crossing)))
    second = [
        _input(graph, number, name, edge) for number, (name, edge) in enumerate(zip(names, crossing, strict=True))
    ]
    moved = {edge: Edge(number) for number, edge in enumerate(crossing[: len(read)])}
    for node in graph.nodes:
        if node.index in late or node.index in constants:
            _add(node, second, moved)
    made_first = {number: Edge(len(read) + place) for place, number in enumerate(returned)}
    outputs = [made_first[number] if number in made_first else moved[edge] for number, edge in enumerate(graph.outputs)]
    return Halves(first_graph, checked_graph(second, outputs), names)


def _input(graph: Graph, number: int, name: str, edge: Edge) -> GraphNode:
    # The layout that an input declares shows operators that they may have to run frame by frame.
    arguments = {"layout": "F"} if may_be_sequence(graph, edge) else {}
    return GraphNode(
        number, "external_source", name, "cpu", arguments=arguments, location=graph.nodes[edge.node].location
    )


def _late(graph: Graph, is_late: Callable[[GraphNode], bool]) -> Collection[int]:
    late = {node.index for node in graph.nodes if is_late(node)}
    while True:
        before = len(late)
        for node in graph.nodes:
            if any(edge.node in late for edge in node.sources):
                late.add(node.index)
        for node in reversed(graph.nodes):
            if node.index in late:
                late.update(edge.node for edge in node.sources if graph.nodes[edge.node].branch)
        if len(late) == before:
            return late


def _brings_data(node: GraphNode) -> bool:
    """Return whether a node takes data from the CPU to the GPU, and a CPU node with a copy can replace it."""
    if node.device == "mixed":
        if not has_cpu_form(node):
            raise GraphError(f"{node.display} doesn't run on the CPU, device={node.device!r}\n  at {node.location}")
        return True
    return node.device == "gpu" and node.schema.fed


def _reads_data(node: GraphNode) -> bool:
    return node.schema.fed or issubclass(implementation(node.operator, node.device), Reader)


def _add(node: GraphNode, nodes: list[GraphNode], moved: dict[Edge, Edge]) -> None:
    made = renumbered(node, len(nodes), moved)
    nodes.append(made)
    moved.update({Edge(node.index, output): Edge(made.index, output) for output in range(node.output_count)})
