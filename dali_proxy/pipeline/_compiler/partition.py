"""Split a graph into a host stage, which decodes, and a device stage, so that two processes can run it.

Both stages together compute the same values as the whole graph: nodes keep their random streams, names and lines.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from dali_proxy.pipeline._compiler.per_frame_arguments import may_be_sequence
from dali_proxy.pipeline._declaration.registry import implementation
from dali_proxy.pipeline._declaration.schema import Role
from dali_proxy.pipeline._graph.graph import Edge, Graph, GraphNode
from dali_proxy.pipeline._graph.on_cpu import COPIES, has_cpu_form
from dali_proxy.pipeline._graph.renumbering import checked_graph, renumbered
from dali_proxy.pipeline._operator_api.reader import ReaderOperator
from dali_proxy.pipeline._operators import user_code
from dali_proxy.pipeline._operators.arrays.copy_to_device import COPY_TO_GPU
from dali_proxy.pipeline._operators.user_code.external_source import EXTERNAL_SOURCE
from dali_proxy.pipeline.errors import GraphError


@dataclass(frozen=True, eq=False)
class Stages:
    """The two stages of a graph.

    Attributes:
        host: host stage. Its outputs are the inputs of the device stage.
        device: device stage. Its inputs, in order, are the outputs of `host`; its outputs are those of the whole graph.
        crossing: names of the device stage's inputs, in order.
    """

    host: Graph
    device: Graph
    crossing: tuple[str, ...]


def stages_by_device(graph: Graph) -> Stages:
    """Split a graph between CPU and GPU: the host stage runs on the CPU only.

    Decoders with ``device="mixed"`` decode on the CPU instead. Operators on the CPU that read results of the GPU
    belong to the device stage.

    Raises:
        GraphError: an operator doesn't allow this split; the message names it and the user's line.
    """
    return cut(on_cpu_first(graph), _is_on_gpu)


def stages_on_cores(graph: Graph) -> Stages:
    """Split a graph so that the host stage runs all that can run on the CPU, and the device stage copies the results.

    Operators that exist only on the GPU, functions of the user for the GPU, and what reads their results belong to the
    device stage, too.

    Raises:
        GraphError: an operator doesn't allow this split; the message names it and the user's line.
    """
    return cut(
        _with_cpu_forms(graph, lambda node: _brings_data(node) or (has_cpu_form(node) and not runs_user_code(node))),
        _is_on_gpu,
    )


def stages_on_engine(graph: Graph) -> Stages:
    """Split a graph so that the host stage runs all that needs no GPU, and the device stage begins with the decoders.

    Raises:
        GraphError: an operator doesn't allow this split; the message names it and the user's line.
    """
    fed_on_cpu = _with_cpu_forms(graph, lambda node: node.device == "gpu" and node.schema.fed)
    return cut(fed_on_cpu, lambda node: node.device != "cpu")


def on_cpu_first(graph: Graph) -> Graph:
    """Replace each operator that takes data from the CPU to the GPU by a CPU operator and a copy to the GPU.

    The given graph stays unchanged.

    Raises:
        GraphError: such an operator has no implementation for the CPU; the message names it and the user's line.
    """
    return _with_cpu_forms(graph, _brings_data)


def _with_cpu_forms(graph: Graph, is_moved: Callable[[GraphNode], bool]) -> Graph:
    """Move operators of the GPU to the CPU, unless they read its results; copy their results for its readers."""
    nodes: list[GraphNode] = []
    on_cpu: dict[Edge, Edge] = {}
    on_gpu: dict[Edge, Edge] = {}

    def place(edge: Edge) -> Edge:
        """Return the value of an edge on the device where it is in the given graph."""
        if graph.device_of(edge) == "cpu":
            return on_cpu[edge]
        if edge not in on_gpu:
            node = graph.nodes[edge.node]
            copy = GraphNode(
                index=len(nodes),
                operator=COPY_TO_GPU.name,
                name=node.name if node.schema.role in COPIES else f"__{node.name}_{edge.output}_to_gpu",
                device="gpu",
                inputs=(on_cpu[edge],),
                location=node.location,
                stream=node.random_stream,
                branch=tuple((on_cpu[condition], value) for condition, value in node.branch),
            )
            nodes.append(copy)
            on_gpu[edge] = Edge(copy.index)
        return on_gpu[edge]

    for node in graph.nodes:
        reads_cpu = all(edge in on_cpu for edge in node.sources)
        if node.schema.role in COPIES and reads_cpu:
            on_cpu[Edge(node.index)] = on_cpu[node.inputs[0]]
            continue
        moves = node.device != "cpu" and reads_cpu and is_moved(node)
        sources = {edge: on_cpu[edge] if moves else place(edge) for edge in node.sources}
        placed = renumbered(node, len(nodes), sources)
        nodes.append(replace(placed, device="cpu") if moves else placed)
        values = on_cpu if moves or node.output_device == "cpu" else on_gpu
        for output in range(node.output_count):
            values[Edge(node.index, output)] = Edge(placed.index, output)
    return checked_graph(nodes, [place(edge) for edge in graph.outputs])


def cut(graph: Graph, is_late: Callable[[GraphNode], bool]) -> Stages:
    """Split a graph into two stages, the second with all nodes that are late.

    Nodes that depend on the device stage belong to it too. So do nodes in a branch (`if`) whose results the device
    stage reads: these results have only some of the samples, and only batches with all samples can be transferred.

    Raises:
        GraphError: a node of the device stage reads a data set: its order would change.
    """
    late = _late(graph, is_late)
    for node in graph.nodes:
        if node.index in late and _reads_data(node):
            raise GraphError(
                f"{node.display} reads data, so it must run in the same process as the first operators of the graph"
                f"\n  at {node.location}"
            )
    sources = {edge for node in graph.nodes if node.index in late for edge in node.sources if edge.node not in late}
    # Constants are cheaper to run in both stages than to send with every batch.
    constants = {edge.node for edge in sources if graph.nodes[edge.node].schema.role is Role.CONSTANT}
    read = {edge for edge in sources if edge.node not in constants}
    # Outputs of the graph that the host stage computes are transferred separately, even if the device stage reads them
    # too: users may write to their copy while the device stage reads the other one.
    returned = [number for number, edge in enumerate(graph.outputs) if edge.node not in late]
    crossing = [*sorted(read), *(graph.outputs[number] for number in returned)]

    host: list[GraphNode] = []
    moved: dict[Edge, Edge] = {}
    for node in graph.nodes:
        if node.index not in late:
            _add(node, host, moved)
    host_graph = checked_graph(host, [moved[edge] for edge in crossing])

    names = tuple(f"__crossing_{number}" for number in range(len(crossing)))
    device = [
        _input(graph, number, name, edge) for number, (name, edge) in enumerate(zip(names, crossing, strict=True))
    ]
    moved = {edge: Edge(number) for number, edge in enumerate(crossing[: len(read)])}
    for node in graph.nodes:
        if node.index in late or node.index in constants:
            _add(node, device, moved)
    crossed = {number: Edge(len(read) + index) for index, number in enumerate(returned)}
    outputs = [crossed[number] if number in crossed else moved[edge] for number, edge in enumerate(graph.outputs)]
    return Stages(host_graph, checked_graph(device, outputs), names)


def _input(graph: Graph, number: int, name: str, edge: Edge) -> GraphNode:
    # From the declared layout of the input, operators see that its samples may be sequences.
    arguments = {"layout": "F"} if may_be_sequence(graph, edge) else {}
    return GraphNode(
        number, EXTERNAL_SOURCE.name, name, "cpu", arguments=arguments, location=graph.nodes[edge.node].location
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


def runs_user_code(node: GraphNode) -> bool:
    """Return whether an operator calls a function of the user, which may expect arrays of its device."""
    return implementation(node.operator, node.device).__module__.startswith(user_code.__name__)


def _is_on_gpu(node: GraphNode) -> bool:
    return node.device == "gpu"


def _brings_data(node: GraphNode) -> bool:
    """Return whether a node takes data from the CPU to the GPU, and a CPU node with a copy can replace it."""
    if node.device == "mixed":
        if not has_cpu_form(node):
            raise GraphError(f"{node.display} doesn't run on the CPU, device={node.device!r}\n  at {node.location}")
        return True
    return node.device == "gpu" and node.schema.fed


def _reads_data(node: GraphNode) -> bool:
    return node.schema.fed or issubclass(implementation(node.operator, node.device), ReaderOperator)


def _add(node: GraphNode, nodes: list[GraphNode], moved: dict[Edge, Edge]) -> None:
    copied = renumbered(node, len(nodes), moved)
    nodes.append(copied)
    moved.update({Edge(node.index, output): Edge(copied.index, output) for output in range(node.output_count)})
