"""The plan of a graph: phases on the CPU, between CPU and GPU, and on the GPU, each a list of steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from pipeline._declaration.registry import implementation
from pipeline._graph.graph import Edge, Graph, GraphNode
from pipeline._operator_api.operator import SampleOperator
from pipeline._operator_api.pixel_operator import PixelOperator

__all__ = ["BatchStep", "Phase", "Plan", "SampleStep", "Step", "make_plan", "step_name"]


@dataclass(frozen=True)
class BatchStep:
    """Operators that process a whole batch, one after the other.

    Attributes:
        nodes: operators in order of execution.
        results: edges that operators outside the step read, or that the pipeline returns.
    """

    nodes: tuple[GraphNode, ...]
    results: tuple[Edge, ...]

    @cached_property
    def name(self) -> str:
        return step_name(self.nodes)


@dataclass(frozen=True)
class SampleStep:
    """A chain of operators that the threads of the pool run sample by sample.

    Attributes:
        nodes: operators in order of execution.
        results: edges that operators outside the chain read, or that the pipeline returns.
    """

    nodes: tuple[GraphNode, ...]
    results: tuple[Edge, ...]

    @cached_property
    def name(self) -> str:
        return step_name(self.nodes)


Step = BatchStep | SampleStep

#: Kinds of phases in their order in a batch. Each kind has separate threads, so that one batch is decoded or copied
#: to the GPU while the operators of the batch before it are issued.
_KINDS = ("cpu", "mixed", "gpu")
# Operators that other passes of the compiler may leave without readers.
_PURE = ("copy_to_gpu", "table_row")
# Largest number of operators in the name of a step.
_MOST_NAMED = 6
# Largest constant, in bytes, whose copies for all samples of a batch are kept.
_SMALL = 1024


@dataclass(frozen=True)
class Phase:
    """Steps that run one after another on one device.

    Attributes:
        device: "cpu", "mixed" (decoders, and copies to the GPU) or "gpu".
        steps: steps in order.
        results: edges that other phases read, or that the pipeline returns.
    """

    device: str
    steps: tuple[Step, ...]
    results: tuple[Edge, ...] = ()

    @cached_property
    def name(self) -> str:
        return step_name([node for step in self.steps for node in step.nodes])

    @cached_property
    def on_gpu(self) -> bool:
        return self.device != "cpu"

    @cached_property
    def takes_inputs_only(self) -> bool:
        """Whether it only takes fed inputs: the current thread can do that without waking another one."""
        return self.device == "cpu" and all(node.schema.fed for step in self.steps for node in step.nodes)


@dataclass(frozen=True)
class Plan:
    """The steps that the executor runs for every batch.

    Attributes:
        constants: small constants and copies of them, in order. They are the same for all batches.
        phases: phases of the other operators in order; neighbours are on different devices.
        dead_after: for each step (phase, step), the edges that no later step reads; outputs of the graph never die.
        readers: number of readers of each edge; the pipeline's outputs are readers, too.
    """

    constants: tuple[GraphNode, ...]
    phases: tuple[Phase, ...]
    dead_after: dict[tuple[int, int], list[Edge]]
    readers: Counter[Edge]

    @property
    def uses_gpu(self) -> bool:
        return any(phase.on_gpu for phase in self.phases)


def step_name(nodes: Sequence[GraphNode]) -> str:
    """Return the name of operators that run one after another, for traces."""
    names = [node.schema.display for node in nodes]
    shown = names if len(names) <= _MOST_NAMED else [*names[: _MOST_NAMED - 1], f"{len(names)} operators"]
    return " → ".join(shown)


def make_plan(graph: Graph) -> Plan:
    """Order the operators of a graph into phases and steps.

    Each operator goes into the first phase of its device that doesn't precede its inputs. Within a phase on the CPU,
    operators on samples form chains as long as possible. A chain ends before an operator with an argument that the
    chain itself computes, because arguments are resolved for a whole batch at once.
    """
    constants = _constants(graph)
    read = {edge.node for node in graph.nodes for edge in node.sources} | {edge.node for edge in graph.outputs}
    levels: list[int] = []
    skipped = {node.index for node in graph.nodes if node.operator in _PURE and node.index not in read}
    skipped |= constants.keys()
    for node in graph.nodes:
        if node.index in skipped:
            levels.append(0)
            continue
        kind = _KINDS.index("mixed" if node.operator == "copy_to_gpu" else node.device)
        level = max((levels[edge.node] for edge in node.sources), default=0)
        levels.append(level + (kind - level) % len(_KINDS))
    phases = []
    for level in range(max(levels, default=0) + 1):
        nodes = [node for node in graph.nodes if levels[node.index] == level and node.index not in skipped]
        device = _KINDS[level % len(_KINDS)]
        if nodes:
            steps = _cpu_steps(nodes, graph) if device == "cpu" else _gpu_steps(nodes, graph)
            phases.append(Phase(device, steps, _results(nodes, graph)))
    readers = Counter(edge for node in graph.nodes for edge in node.sources)
    readers.update(graph.outputs)
    return Plan(tuple(constants.values()), tuple(phases), _dead_edges(phases, graph), readers)


def _constants(graph: Graph) -> dict[int, GraphNode]:
    """Return the small constants and copies of them, by index, except outputs of the pipeline."""
    found: dict[int, GraphNode] = {}
    outputs = {edge.node for edge in graph.outputs}
    for node in graph.nodes:
        is_small = node.operator == "constant_value" and node.argument("value").nbytes <= _SMALL
        is_copy = node.operator == "copy_to_gpu" and node.inputs[0].node in found
        if (is_small or is_copy) and not node.branch and node.index not in outputs:
            found[node.index] = node
    return found


def _is_sample_operator(node: GraphNode) -> bool:
    return issubclass(implementation(node.operator, node.device), SampleOperator)


def _cpu_steps(nodes: list[GraphNode], graph: Graph) -> tuple[Step, ...]:
    steps: list[Step] = []
    waiting = list(nodes)
    pending = {node.index for node in nodes}  # not yet in a step
    while waiting:
        ready = [
            node
            for node in waiting
            if not _is_sample_operator(node) and not any(edge.node in pending for edge in node.sources)
        ]
        if ready:
            steps.append(BatchStep(tuple(ready), _results(ready, graph)))
            chosen = ready
        else:
            chosen = _chain(waiting, pending)
            steps.append(SampleStep(tuple(chosen), _results(chosen, graph)))
        pending -= {node.index for node in chosen}
        waiting = [node for node in waiting if node.index in pending]
    return tuple(steps)


def _gpu_steps(nodes: Iterable[GraphNode], graph: Graph) -> tuple[Step, ...]:
    """Return the inputs that are fed, then everything else, and last what can be recorded without the others."""
    fed, others = ([node for node in nodes if node.schema.fed is wanted] for wanted in (True, False))
    last = _recordable(others)
    parts = (
        fed,
        [node for node in others if node.index not in last],
        [node for node in others if node.index in last],
    )
    return tuple(BatchStep(tuple(part), _results(part, graph)) for part in parts if part)


def _recordable(nodes: Sequence[GraphNode]) -> set[int]:
    """Return the indices of operators that a separate step may repeat as recorded launches.

    They have constant arguments, as have all operators behind them, and none of them could be one kernel with an
    operator before the step. The result is empty if all operators have constant arguments.
    """
    readers: dict[int, list[int]] = {}
    for node in nodes:
        for edge in node.sources:
            readers.setdefault(edge.node, []).append(node.index)
    constant: set[int] = set()
    for node in reversed(nodes):
        kind = implementation(node.operator, node.device)
        repeats = getattr(kind, "repeatable", False) and not (node.argument_inputs or node.branch)
        is_known = not node.schema.random or hasattr(kind, "seed_scalars")
        if repeats and is_known and constant.issuperset(readers.get(node.index, ())):
            constant.add(node.index)
    if len(constant) == len(nodes):
        return set()
    own = {node.index for node in nodes}
    chosen: set[int] = set()
    for node in nodes:
        before = {edge.node for edge in node.inputs} & own
        is_alone = not issubclass(implementation(node.operator, node.device), PixelOperator)
        if node.index in constant and (is_alone or (before and before <= chosen)):
            chosen.add(node.index)
    while wrong := {index for index in chosen if not chosen.issuperset(readers.get(index, ()))}:
        chosen -= wrong
    return chosen


def _chain(waiting: Iterable[GraphNode], pending: set[int]) -> list[GraphNode]:
    chain: list[GraphNode] = []
    members: set[int] = set()
    for node in waiting:
        fits = (
            _is_sample_operator(node)
            and all(edge.node not in pending or edge.node in members for edge in node.inputs)
            and all(edge.node not in pending for edge in node.arguments_before)
        )
        if fits:
            chain.append(node)
            members.add(node.index)
    return chain


def _results(chain: Sequence[GraphNode], graph: Graph) -> tuple[Edge, ...]:
    members = {node.index for node in chain}
    wanted = {edge for node in graph.nodes if node.index not in members for edge in node.sources}
    wanted.update(graph.outputs)
    return tuple(sorted(edge for edge in wanted if edge.node in members))


def _dead_edges(phases: list[Phase], graph: Graph) -> dict[tuple[int, int], list[Edge]]:
    last: dict[Edge, tuple[int, int]] = {}
    for phase_number, phase in enumerate(phases):
        for step_number, step in enumerate(phase.steps):
            for node in step.nodes:
                for edge in node.sources:
                    last[edge] = (phase_number, step_number)
    for edge in graph.outputs:
        last.pop(edge, None)
    dead: dict[tuple[int, int], list[Edge]] = {}
    for edge, position in last.items():
        dead.setdefault(position, []).append(edge)
    return dead
