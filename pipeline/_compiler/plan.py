"""The plan of a graph: phases on the CPU and on the GPU in turn, each a list of steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pipeline._compiler.fusion import fused_chains
from pipeline._declaration.registry import implementation
from pipeline._graph.graph import Edge, Graph, GraphNode
from pipeline._operator_api.operator import SampleOperator

__all__ = ["BatchStep", "FusedStep", "Phase", "Plan", "SampleStep", "Step", "make_plan", "operator_class"]


@dataclass(frozen=True)
class BatchStep:
    """One operator, run for the batch as a whole."""

    node: GraphNode

    @property
    def nodes(self) -> tuple[GraphNode, ...]:
        """The operator, as other steps have them."""
        return (self.node,)


@dataclass(frozen=True)
class SampleStep:
    """A chain of operators that is run a sample at a time, on the threads of the pool.

    Attributes:
        nodes: in order of execution.
        results: edges that something outside the chain reads, or that the pipeline returns.
    """

    nodes: tuple[GraphNode, ...]
    results: tuple[Edge, ...]


@dataclass(frozen=True)
class FusedStep:
    """Operators on the GPU, each of which reads just what the one before makes, run as one: see `fusion.py`.

    Attributes:
        nodes: in order.
    """

    nodes: tuple[GraphNode, ...]


Step = BatchStep | SampleStep | FusedStep


@dataclass(frozen=True)
class Phase:
    """Steps that run one after the other on one device, "cpu" or "gpu"."""

    device: str
    steps: tuple[Step, ...]

    @property
    def takes_inputs_only(self) -> bool:
        """Whether all that it does is to take what was fed: no thread needs to be woken for that."""
        return self.device == "cpu" and all(isinstance(each, BatchStep) and each.node.schema.fed for each in self.steps)


@dataclass(frozen=True)
class Plan:
    """What the executor does for every batch.

    Attributes:
        phases: in order; neighbours are on different devices.
        last_use: for each edge, the step (phase, step) after which nothing reads it; outputs have none.
    """

    phases: tuple[Phase, ...]
    last_use: dict[Edge, tuple[int, int]]

    @property
    def uses_gpu(self) -> bool:
        return any(phase.device == "gpu" for phase in self.phases)


def make_plan(graph: Graph, *, fuse: bool = True) -> Plan:
    """Order the operators of a graph into phases and steps.

    An operator goes into the first phase of its device that comes no sooner than all that it reads. Within a phase
    on the CPU, operators on samples are gathered into chains as long as possible; a chain ends where an argument of
    an operator is made by the chain itself, because arguments are resolved for a batch at once.

    Args:
        graph: what to order.
        fuse: whether operators on the GPU may be run as one.
    """
    fused = fused_chains(graph) if fuse else ()
    levels: list[int] = []
    for node in graph.nodes:
        parity = 0 if node.device == "cpu" else 1  # even phases run on the CPU, odd ones on the GPU
        level = max((levels[edge.node] for edge in node.sources), default=0)
        levels.append(level if level % 2 == parity else level + 1)
    phases = []
    for level in range(max(levels, default=0) + 1):
        nodes = [node for node in graph.nodes if levels[node.index] == level]
        device = "cpu" if level % 2 == 0 else "gpu"
        steps = _cpu_steps(nodes, graph) if device == "cpu" else _gpu_steps(nodes, fused)
        if steps:
            phases.append(Phase(device, steps))
    return Plan(tuple(phases), _last_uses(phases, graph))


def _gpu_steps(nodes: list[GraphNode], fused: Iterable[tuple[GraphNode, ...]]) -> tuple[Step, ...]:
    """Return steps in the order of the graph; a chain comes where its last operator stands."""
    last = {chain[-1].index: chain for chain in fused}
    inner = {node.index for chain in fused for node in chain[:-1]}
    return tuple(
        FusedStep(last[node.index]) if node.index in last else BatchStep(node)
        for node in nodes
        if node.index not in inner
    )


def operator_class(node: GraphNode, graph: Graph) -> type[Any]:
    """Return what implements a node: the form for whole batches, where there is one and a GPU reads what it makes."""
    made = implementation(node.operator, node.device)
    whole = made.batch_operator if issubclass(made, SampleOperator) else None
    if whole is None:
        return made
    readers = [other for other in graph.nodes if any(edge.node == node.index for edge in other.sources)]
    return whole if any(other.device != "cpu" for other in readers) else made


def _is_sample_operator(node: GraphNode, graph: Graph) -> bool:
    return issubclass(operator_class(node, graph), SampleOperator)


def _cpu_steps(nodes: list[GraphNode], graph: Graph) -> tuple[Step, ...]:
    steps: list[Step] = []
    waiting = list(nodes)
    pending = {node.index for node in nodes}  # not yet in a step
    while waiting:
        ready = [
            node
            for node in waiting
            if not _is_sample_operator(node, graph) and not any(edge.node in pending for edge in node.sources)
        ]
        if ready:
            steps += [BatchStep(node) for node in ready]
            taken = ready
        else:
            taken = _chain(waiting, pending, graph)
            steps.append(SampleStep(tuple(taken), _results(taken, graph)))
        pending -= {node.index for node in taken}
        waiting = [node for node in waiting if node.index in pending]
    return tuple(steps)


def _chain(waiting: Iterable[GraphNode], pending: set[int], graph: Graph) -> list[GraphNode]:
    chain: list[GraphNode] = []
    members: set[int] = set()
    for node in waiting:
        fits = (
            _is_sample_operator(node, graph)
            and all(edge.node not in pending or edge.node in members for edge in node.inputs)
            and all(edge.node not in pending for edge in node.arguments_before)
        )
        if fits:
            chain.append(node)
            members.add(node.index)
    return chain


def _results(chain: list[GraphNode], graph: Graph) -> tuple[Edge, ...]:
    members = {node.index for node in chain}
    wanted = {edge for node in graph.nodes if node.index not in members for edge in node.sources}
    wanted.update(graph.outputs)
    return tuple(sorted(edge for edge in wanted if edge.node in members))


def _last_uses(phases: list[Phase], graph: Graph) -> dict[Edge, tuple[int, int]]:
    last: dict[Edge, tuple[int, int]] = {}
    for phase_number, phase in enumerate(phases):
        for step_number, step in enumerate(phase.steps):
            for node in step.nodes:
                for edge in node.sources:
                    last[edge] = (phase_number, step_number)
    for edge in graph.outputs:
        last.pop(edge, None)
    return last
