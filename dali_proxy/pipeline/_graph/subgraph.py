"""`Subgraph`: a few calls of operators as a separate graph, which reads the data before them as inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._cached_property import cached_property
from dali_proxy.pipeline._graph.graph import Edge, Graph, GraphNode
from dali_proxy.pipeline._graph.nodes import DataNode, OperatorCall


class Subgraph:
    """The calls on which nodes depend, back to nodes whose data exists. These become inputs, which a caller feeds.

    Args:
        calls: calls whose operators shall run.
        is_known: function that returns whether the data of a node exists.

    Attributes:
        calls: the given calls and those before them, in order.
        fed: nodes whose data is fed, in the order of the inputs.
    """

    def __init__(self, calls: Iterable[OperatorCall], is_known: Callable[[DataNode], bool]) -> None:
        seen: dict[int, OperatorCall] = {}
        fed: dict[int, DataNode] = {}
        pending = list(calls)
        while pending:
            call = pending.pop()
            if call.order in seen:
                continue
            seen[call.order] = call
            for node in (*call.inputs, *call.argument_inputs.values()):
                if is_known(node):
                    fed.setdefault(id(node), node)
                else:
                    assert node.source is not None
                    pending.append(node.source)
        self.calls = [seen[order] for order in sorted(seen)]
        self.fed = list(fed.values())
        self._fed = {key: number for number, key in enumerate(fed)}
        self._numbers = {call.order: number for number, call in enumerate(self.calls, len(fed))}

    def edge(self, node: DataNode) -> Edge:
        """Return the edge of a node of the calls, or of a node whose data is fed."""
        number = self._fed.get(id(node))
        if number is not None:
            return Edge(number)
        assert node.source is not None
        return Edge(self._numbers[node.source.order], node.index)

    def number(self, call: OperatorCall) -> int:
        """Return the index of a call in the graph."""
        return self._numbers[call.order]

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """A value that is equal for subgraphs of the same structure: only data and user lines may differ."""
        calls = tuple(
            (
                call.schema.name,
                call.device,
                tuple((name, hashable(value)) for name, value in call.arguments.items()),
                tuple(map(self.edge, call.inputs)),
                tuple((name, self.edge(node)) for name, node in call.argument_inputs.items()),
            )
            for call in self.calls
        )
        return tuple(node.device for node in self.fed), calls

    @staticmethod
    def input_name(number: int) -> str:
        """Return the name of an input."""
        return f"__input_{number}"

    def graph(self, outputs: Sequence[Edge]) -> Graph:
        """Return the graph."""
        inputs = [
            GraphNode(number, "external_source", self.input_name(number), node.device, arguments={"no_copy": True})
            for number, node in enumerate(self.fed)
        ]
        nodes = [
            GraphNode(
                index=number,
                operator=call.schema.name,
                name=call.name or f"__{call.schema.name}_{number}",
                device=call.device,
                inputs=tuple(map(self.edge, call.inputs)),
                arguments=dict(call.arguments),
                argument_inputs={name: self.edge(node) for name, node in call.argument_inputs.items()},
                location=call.location,
            )
            for number, call in enumerate(self.calls, len(inputs))
        ]
        return Graph((*inputs, *nodes), tuple(outputs))


def hashable(value: Any) -> Any:
    """Return a hashable value that is equal for equal arguments. The graph keeps the objects of which it has the id."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, list | tuple):
        return tuple(map(hashable, value))
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value
