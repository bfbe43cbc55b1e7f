"""The frozen graph: numbered operators in order of execution. It can be compiled, serialized and drawn."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dali_proxy.pipeline._cached_property import cached_property
from dali_proxy.pipeline._declaration.registry import lookup
from dali_proxy.pipeline._declaration.schema import OperatorSchema, Role
from dali_proxy.pipeline._graph.location import SourceLocation
from dali_proxy.pipeline._graph.nodes import DataNode
from dali_proxy.pipeline._graph.numbering import Numbering
from dali_proxy.pipeline.errors import GraphError


class Edge(NamedTuple):
    """An output of a node."""

    node: int
    output: int = 0


#: The conditions under which a node runs for a sample, outermost first: a selector, and the value that it must have.
BranchPath = tuple[tuple[Edge, int], ...]


@dataclass(frozen=True, eq=False)
class GraphNode:
    """An operator of a graph.

    Attributes:
        index: number in the graph; inputs have smaller numbers. Random numbers depend on it.
        operator: path below `fn`.
        name: name, unique in the graph.
        device: "cpu", "mixed" or "gpu".
        inputs: positional inputs.
        arguments: constant arguments in normal form.
        argument_inputs: arguments that have one value per sample.
        location: the user's line.
        branch: conditions under which it runs for a sample; empty for all samples.
        twin: number of the node whose random numbers it shares; None for its own.
        stream: stream of its random numbers, if its number doesn't determine it, in a graph cut from another one.
    """

    index: int
    operator: str
    name: str
    device: str
    inputs: tuple[Edge, ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)
    argument_inputs: Mapping[str, Edge] = field(default_factory=dict)
    location: SourceLocation = SourceLocation()
    branch: BranchPath = ()
    twin: int | None = None
    stream: int | None = None

    @cached_property
    def schema(self) -> OperatorSchema:
        return lookup(self.operator)

    @property
    def display(self) -> str:
        """The name of the node in messages: its operator, with the name or the function that the user gave it."""
        if not self.name.startswith("__"):
            return f"{self.schema.display} (name={self.name!r})"
        name = _function_name(self.arguments.get("function"))
        return f"{self.schema.display} ({name})" if name else self.schema.display

    @cached_property
    def output_count(self) -> int:
        return self.schema.output_count(self.arguments, len(self.inputs))

    @cached_property
    def own_seed(self) -> int | None:
        """The seed that was passed to the operator; None if it uses the pipeline's."""
        seed = self.argument("seed")
        return None if seed is None or seed < 0 else int(seed)

    @cached_property
    def random_stream(self) -> int:
        """The number of the pipeline's random number stream that it draws from."""
        if self.stream is not None:
            return self.stream
        return (self.index if self.twin is None else self.twin) + 1

    @cached_property
    def vectors(self) -> dict[Hashable, Any]:
        """What `Arguments` has computed from constant arguments."""
        return {}

    @property
    def output_device(self) -> str:
        return self.schema.output_device or ("cpu" if self.device == "cpu" else "gpu")

    @cached_property
    def argument(self) -> Callable[[str], Any]:
        """A function that returns a constant argument, or its default, by name."""
        return {**self.schema.defaults, **self.arguments}.get

    @cached_property
    def sources(self) -> tuple[Edge, ...]:
        """All edges that the node reads: inputs, argument inputs, and the selectors of its branch."""
        return (*self.inputs, *self.arguments_before)

    @cached_property
    def arguments_before(self) -> tuple[Edge, ...]:
        """The edges that must exist for the whole batch before any sample is computed."""
        return (*self.argument_inputs.values(), *(edge for edge, _ in self.branch))


@dataclass(frozen=True, eq=False)
class Graph:
    """Operators in order of execution, and the outputs of the pipeline.

    Attributes:
        nodes: nodes in topological order; ``nodes[i].index == i``.
        outputs: outputs of the pipeline.
    """

    nodes: tuple[GraphNode, ...]
    outputs: tuple[Edge, ...]

    @property
    def uses_gpu(self) -> bool:
        """Whether any operator runs on a GPU."""
        return any(node.device != "cpu" for node in self.nodes)

    def device_of(self, edge: Edge) -> str:
        """Return "cpu" or "gpu"."""
        return self.nodes[edge.node].output_device

    def find(self, role: Role) -> tuple[GraphNode, ...]:
        """Return the nodes with a role, in order."""
        return tuple(node for node in self.nodes if node.schema.role is role)

    @cached_property
    def inputs(self) -> tuple[GraphNode, ...]:
        """The nodes whose data arrives with each batch, in order."""
        return tuple(node for node in self.nodes if node.schema.fed)

    @cached_property
    def fed_inputs(self) -> Mapping[str, GraphNode]:
        """The inputs that have no source, so that a caller must feed them, by name."""
        return {node.name: node for node in self.inputs if node.argument("source") is None}

    @cached_property
    def sequences(self) -> frozenset[int]:
        """The numbers of nodes whose layout may begin with F, because they depend on a sequence."""
        found: set[int] = set()
        for node in self.nodes:
            begins = node.schema.role is Role.PER_FRAME or (
                node.schema.fed and (node.argument("layout") or "")[:1] == "F"
            )
            if begins or any(edge.node in found for edge in (*node.inputs, *node.argument_inputs.values())):
                found.add(node.index)
        return frozenset(found)

    @property
    def uses_seed(self) -> bool:
        """Whether results may depend on the pipeline's seed."""
        return any(
            node.schema.stateful and node.name not in self.fed_inputs and node.own_seed is None for node in self.nodes
        )

    @property
    def output_devices(self) -> tuple[str, ...]:
        """The device of each output, "cpu" or "gpu"."""
        return tuple(self.device_of(edge) for edge in self.outputs)

    @classmethod
    def from_numbering(cls, numbering: Numbering, outputs: Sequence[DataNode]) -> Graph:
        """Freeze the operators that are numbered.

        Raises:
            GraphError: two operators have the same name.
        """
        firsts: dict[int, int] = {}  # the first call that wasn't pruned, of those that share random numbers
        for number, call in enumerate(numbering.calls):
            firsts.setdefault(id(call.twin or call), number)

        def edge(node: DataNode) -> Edge:
            return Edge(*numbering.edge(node))

        nodes = tuple(
            GraphNode(
                index=index,
                operator=call.schema.name,
                name=call.name or f"__{call.schema.name}_{index}",
                device=call.device,
                inputs=tuple(edge(node) for node in call.inputs),
                arguments=dict(call.arguments),
                argument_inputs={key: edge(node) for key, node in call.argument_inputs.items()},
                location=call.location,
                branch=tuple((edge(node), value) for node, value in numbering.branches[index]),
                twin=None if firsts[id(call.twin or call)] == index else firsts[id(call.twin or call)],
                stream=None if call.random_state is None else call.random_state.stream,
            )
            for index, call in enumerate(numbering.calls)
        )
        check_names(nodes)
        edges = tuple(edge(node) for node in outputs)
        check_branches(nodes, edges)
        return cls(nodes, edges)


def _function_name(function: Any) -> str:
    """Return the short name of a function or of a function object; an empty string for a lambda and without one."""
    function = getattr(function, "func", function)  # of a `functools.partial`
    if not callable(function):
        return ""
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    short = str(name).rpartition(".")[2]
    return short if short.isidentifier() else ""


def check_branches(nodes: Sequence[GraphNode], outputs: Iterable[Edge]) -> None:
    """Check that each edge is read only in the branch that contains its node, or in a nested branch.

    Raises:
        GraphError: an operator, or an output of the pipeline, reads data that only some of its samples have.
    """
    for node in nodes:
        for position, (edge, _) in enumerate(node.branch):
            if not _within(node.branch[:position], nodes[edge.node].branch):
                raise GraphError(f"{node.display} is in a branch that depends on another branch\n  at {node.location}")
        for edge in node.argument_inputs.values() if node.schema.merges else node.sources:
            if not _within(node.branch, nodes[edge.node].branch):
                raise GraphError(
                    f"{node.display} reads the output of {nodes[edge.node].display}, which has only the samples of "
                    f"its branch\n  at {node.location}"
                )
    for edge in outputs:
        if nodes[edge.node].branch:
            raise GraphError(
                f"the pipeline returns the output of {nodes[edge.node].display}, which has only the samples of its "
                f"branch\n  at {nodes[edge.node].location}"
            )


def _within(inner: BranchPath, outer: BranchPath) -> bool:
    return inner[: len(outer)] == outer


def check_names(nodes: Iterable[GraphNode]) -> None:
    """Check that no two nodes have the same name.

    Raises:
        GraphError: two nodes have the same name.
    """
    by_name: dict[str, GraphNode] = {}
    for node in nodes:
        other = by_name.setdefault(node.name, node)
        if other is not node:
            raise GraphError(
                "The pipeline is invalid because it contains operators with non-unique names: two operators are called "
                f"{node.name!r}: {other.schema.display} at {other.location} and "
                f"{node.schema.display} at {node.location}"
            )
