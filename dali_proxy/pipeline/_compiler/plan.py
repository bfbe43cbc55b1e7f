"""The plan of a graph: phases on the CPU, between CPU and GPU, and on the GPU, each a list of steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from dali_proxy.pipeline._cached_property import cached_property
from dali_proxy.pipeline._compiler.cached_parts import CachedPart
from dali_proxy.pipeline._declaration.registry import implementation
from dali_proxy.pipeline._declaration.schema import Role
from dali_proxy.pipeline._graph.graph import Edge, Graph, GraphNode
from dali_proxy.pipeline._operator_api.operator import SampleOperator
from dali_proxy.pipeline._operator_api.pixel_operator import PixelOperator

_Reads = dict[int, list[tuple[Edge, int]]]


@dataclass(frozen=True)
class PlannedStep:
    """Operators that run one after another.

    Attributes:
        nodes: operators in order of execution.
        results: edges that operators outside the step read, or that the pipeline returns.
    """

    nodes: tuple[GraphNode, ...]
    results: tuple[Edge, ...]

    @cached_property
    def name(self) -> str:
        return step_name(self.nodes)


class BatchStep(PlannedStep):
    """Operators that process a whole batch."""


class SampleStep(PlannedStep):
    """A chain of operators that the threads of the pool run sample by sample."""


@dataclass(frozen=True)
class PartStep(PlannedStep):
    """Operators whose results a cache may have.

    Attributes:
        sources: the edges that they read.
        steps: what runs for samples that the cache doesn't have.
        key: description of the operators.
        contents: the contents of files that the first step reads, whose paths are the source; None without such a step.
    """

    sources: tuple[Edge, ...]
    steps: tuple[PlannedStep, ...]
    key: bytes
    contents: Edge | None = None


#: Kinds of phases in their order in a batch. Each kind has separate threads, so that one batch is decoded or copied
#: to the GPU while the operators of the batch before it are issued.
_KINDS = ("cpu", "mixed", "gpu")
# Operators that other passes of the compiler may leave without readers.
_PURE = (Role.COPY_TO_GPU, Role.TABLE_ROW)
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
    steps: tuple[PlannedStep, ...]
    results: tuple[Edge, ...] = ()

    @cached_property
    def name(self) -> str:
        return step_name([node for step in self.steps for node in step.nodes])

    @cached_property
    def on_gpu(self) -> bool:
        return self.device != "cpu"


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


def make_plan(graph: Graph, parts: Sequence[CachedPart] = ()) -> Plan:
    """Order the operators of a graph into phases and steps, with the parts whose results a cache may have.

    Each operator goes into the first phase of its device that doesn't precede its inputs. Within a phase on the CPU,
    operators on samples form chains as long as possible. A chain ends before an operator with an argument that the
    chain itself computes, because arguments are resolved for a whole batch at once.
    """
    constants = _constants(graph)
    read = {edge.node for node in graph.nodes for edge in node.sources} | {edge.node for edge in graph.outputs}
    levels: list[int] = []
    skipped = {node.index for node in graph.nodes if node.schema.role in _PURE and node.index not in read}
    skipped |= constants.keys()
    for node in graph.nodes:
        if node.index in skipped:
            levels.append(0)
            continue
        kind = _KINDS.index("mixed" if node.schema.role is Role.COPY_TO_GPU else node.device)
        level = max((levels[edge.node] for edge in node.sources), default=0)
        levels.append(level + (kind - level) % len(_KINDS))
    phases, reads = [], _reads(graph)
    for level in range(max(levels, default=0) + 1):
        nodes = [node for node in graph.nodes if levels[node.index] == level and node.index not in skipped]
        device = _KINDS[level % len(_KINDS)]
        if nodes:
            steps = _steps_with_parts(nodes, reads, parts, _cpu_steps if device == "cpu" else _gpu_steps)
            phases.append(Phase(device, steps, _results(nodes, reads)))
    readers = Counter(edge for node in graph.nodes for edge in node.sources)
    readers.update(graph.outputs)
    return Plan(tuple(constants.values()), tuple(phases), _dead_edges(phases, graph), readers)


def _constants(graph: Graph) -> dict[int, GraphNode]:
    """Return the small constants and copies of them, by index, except outputs of the pipeline."""
    found: dict[int, GraphNode] = {}
    outputs = {edge.node for edge in graph.outputs}
    for node in graph.nodes:
        is_small = node.schema.role is Role.CONSTANT and node.argument("value").nbytes <= _SMALL
        is_copy = node.schema.role is Role.COPY_TO_GPU and node.inputs[0].node in found
        if (is_small or is_copy) and not node.branch and node.index not in outputs:
            found[node.index] = node
    return found


def _is_sample_operator(node: GraphNode) -> bool:
    return issubclass(implementation(node.operator, node.device), SampleOperator)


def _steps_with_parts(
    nodes: list[GraphNode],
    reads: _Reads,
    parts: Sequence[CachedPart],
    steps_of: Callable[[list[GraphNode], _Reads], tuple[PlannedStep, ...]],
) -> tuple[PlannedStep, ...]:
    """Return the steps of a phase: what the parts need, the parts, and everything else."""
    own = {node.index for node in nodes}
    here = [part for part in parts if part.nodes[0].index in own]
    planned = [part_step(part, steps_of(list(part.nodes), reads)) for part in here]
    needed = {edge.node for part in planned for edge in part.sources}
    for node in reversed(nodes):
        if node.index in needed:
            needed.update(edge.node for edge in node.sources)
    members = {node.index for part in planned for node in part.nodes}
    before = [node for node in nodes if node.index in needed - members]
    rest = [node for node in nodes if node.index not in needed | members]
    return (*steps_of(before, reads), *planned, *steps_of(rest, reads))


def part_step(part: CachedPart, steps: tuple[PlannedStep, ...] = ()) -> PartStep:
    """Return the step of a part, from the steps that compute it."""
    reading = part.reading
    if reading is None:
        return PartStep(part.nodes, part.results, part.sources, steps, part.key)
    steps = (BatchStep((reading,), part.sources), *steps)
    return PartStep((reading, *part.nodes), part.results, reading.inputs, steps, part.key, *part.sources)


def _cpu_steps(nodes: list[GraphNode], reads: _Reads) -> tuple[PlannedStep, ...]:
    own = {node.index: node for node in nodes}
    readers: dict[int, list[int]] = {index: [] for index in own}
    inputs: dict[int, set[int]] = {}  # by operator: the operators before it that aren't in a step, or in its chain
    arguments: dict[int, set[int]] = {}  # the same for arguments, and operators that aren't in a step
    for node in nodes:
        inputs[node.index] = {edge.node for edge in node.inputs if edge.node in own}
        arguments[node.index] = {edge.node for edge in node.arguments_before if edge.node in own}
        for index in inputs[node.index] | arguments[node.index]:
            readers[index].append(node.index)
    on_samples = {index for index, node in own.items() if _is_sample_operator(node)}
    free = [index for index in own if not inputs[index] and not arguments[index]]
    batch = [index for index in free if index not in on_samples]
    samples = [index for index in free if index in on_samples]
    steps: list[PlannedStep] = []
    while batch or samples:
        kind: type[PlannedStep] = BatchStep if batch else SampleStep
        chosen, batch = sorted(batch), []
        if kind is SampleStep:
            chosen, samples = _chain(samples, readers, inputs, arguments, on_samples), []
        members = tuple(own[index] for index in chosen)
        steps.append(kind(members, _results(members, reads)))
        placed = set(chosen)
        for index in chosen:
            for reader in readers[index]:
                inputs[reader].discard(index)
                arguments[reader].discard(index)
                if not inputs[reader] and not arguments[reader] and reader not in placed:
                    placed.add(reader)  # once
                    (samples if reader in on_samples else batch).append(reader)
    return tuple(steps)


def _gpu_steps(nodes: Iterable[GraphNode], reads: _Reads) -> tuple[PlannedStep, ...]:
    """Return the inputs that are fed, then everything else, and last what can be recorded without the others."""
    fed, others = ([node for node in nodes if node.schema.fed is wanted] for wanted in (True, False))
    last = _recordable(others)
    parts = (fed, [node for node in others if node.index not in last], [node for node in others if node.index in last])
    return tuple(BatchStep(tuple(part), _results(part, reads)) for part in parts if part)


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
        repeats = kind.traits.repeatable and not (node.argument_inputs or node.branch)
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
    for node in reversed(nodes):
        if not chosen.issuperset(readers.get(node.index, ())):
            chosen.discard(node.index)
    return chosen


def _chain(
    first: list[int],
    readers: dict[int, list[int]],
    inputs: dict[int, set[int]],
    arguments: dict[int, set[int]],
    on_samples: set[int],
) -> list[int]:
    """Return operators on samples that can run one after another, in order.

    Args:
        first: those that need no others of the chain.
        readers: by operator, those that read it.
        inputs: by operator, the inputs that no step and no member of the chain computes.
        arguments: by operator, the arguments that no step computes.
        on_samples: all operators on samples.
    """
    chain: list[int] = []
    waiting = sorted(first)  # a heap
    while waiting:
        index = heappop(waiting)
        chain.append(index)
        for reader in readers[index]:
            if index in inputs[reader] and reader in on_samples:
                inputs[reader].remove(index)
                if not inputs[reader] and not arguments[reader]:
                    heappush(waiting, reader)
    return chain


def _reads(graph: Graph) -> _Reads:
    """Return, by the number of a node, the edges from it, each with the number of a node that reads it, or -1."""
    reads: _Reads = {}
    for node in graph.nodes:
        for edge in node.sources:
            reads.setdefault(edge.node, []).append((edge, node.index))
    for edge in graph.outputs:
        reads.setdefault(edge.node, []).append((edge, -1))
    return reads


def _results(members: Sequence[GraphNode], reads: _Reads) -> tuple[Edge, ...]:
    """Return the edges that others than these nodes read, or the user."""
    own = {node.index for node in members}
    return tuple(sorted({edge for index in own for edge, reader in reads.get(index, ()) if reader not in own}))


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
