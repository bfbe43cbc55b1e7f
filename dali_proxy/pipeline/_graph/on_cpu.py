"""Moves a graph to the CPU, so that a pipeline for a GPU runs on a machine without one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dali_proxy.pipeline._declaration.registry import has_implementation
from dali_proxy.pipeline._declaration.schema import Role
from dali_proxy.pipeline._graph.graph import Edge, Graph, GraphNode
from dali_proxy.pipeline._graph.renumbering import checked_graph, renumbered
from dali_proxy.pipeline.errors import DeviceError

#: Operators that copy batches between CPU and GPU.
COPIES = (Role.COPY_TO_GPU, Role.COPY_TO_CPU)


@dataclass(frozen=True)
class MovedGraph:
    """A graph that was moved to the CPU.

    Attributes:
        graph: the graph on the CPU.
        operators: the moved operators, as the user declared them.
        copies: the copies between CPU and GPU, which were left out, except those of constants.
        outputs: numbers of the outputs that were on the GPU.
    """

    graph: Graph
    operators: tuple[GraphNode, ...] = ()
    copies: tuple[GraphNode, ...] = ()
    outputs: tuple[int, ...] = ()

    def report(self) -> str:
        """Return a list of the changes for users, a line for each kind."""
        shown = [node for node in self.operators if not node.schema.hidden]  # users don't call the hidden ones
        parts = {
            "operators on the CPU": ", ".join(_described(node.display, [node]) for node in shown),
            "copies left out": _described(str(len(self.copies)), self.copies) if self.copies else "",
            "outputs on the CPU": ", ".join(map(str, self.outputs)),
        }
        return "".join(f"\n  {label}: {text}" for label, text in parts.items() if text)


def move_to_cpu(graph: Graph) -> MovedGraph:
    """Move a graph to the CPU: every operator gets its CPU form, and copies between CPU and GPU disappear.

    Random numbers, names and the user's lines stay the same.

    Raises:
        DeviceError: an operator exists only on the GPU; the message names it and the user's line.
    """
    if all(node.device == "cpu" for node in graph.nodes):
        return MovedGraph(graph)
    nodes: list[GraphNode] = []
    moved: dict[Edge, Edge] = {}
    operators, copies = [], []
    for node in graph.nodes:
        if node.schema.role in COPIES:
            moved[Edge(node.index)] = moved[node.inputs[0]]
            if graph.nodes[node.inputs[0].node].schema.role is not Role.CONSTANT:
                copies.append(node)
            continue
        if node.device != "cpu":
            check_movable(node)
            operators.append(node)
        nodes.append(replace(renumbered(node, len(nodes), moved), device="cpu"))
        moved.update({Edge(node.index, output): Edge(len(nodes) - 1, output) for output in range(node.output_count)})
    on_gpu = tuple(number for number, device in enumerate(graph.output_devices) if device == "gpu")
    return MovedGraph(
        checked_graph(nodes, [moved[edge] for edge in graph.outputs]), tuple(operators), tuple(copies), on_gpu
    )


def has_cpu_form(node: GraphNode) -> bool:
    """Return whether an operator that was declared for the GPU can run on the CPU instead."""
    return node.schema.role is not Role.NVIDIA_PIPELINE and has_implementation(node.operator, "cpu")


def check_movable(node: GraphNode) -> None:
    """Check that an operator that was declared for the GPU can run on the CPU instead.

    Raises:
        DeviceError: it can't.
    """
    if node.schema.role is Role.NVIDIA_PIPELINE:
        raise DeviceError(
            "a pipeline that was made with NVIDIA's package can't be moved to the CPU: create it with device_id=None "
            "and operators on the CPU, or import this package in place of NVIDIA's"
        )
    if not has_cpu_form(node):
        raise DeviceError(
            f"{node.display} exists only on the GPU (device={node.device!r}), so this pipeline can't be moved to the "
            f"CPU\n  at {node.location}"
        )


def _described(name: str, nodes: Sequence[GraphNode]) -> str:
    """Return a name and the lines of nodes: `fn.resize (train.py:12)`."""
    places = dict.fromkeys(node.location.short for node in nodes if node.location.line)
    return f"{name} ({', '.join(places)})" if places else name
