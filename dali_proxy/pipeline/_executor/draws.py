"""The random numbers and windows that a graph drew for a batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._declaration.schema import DETERMINISTIC
from dali_proxy.pipeline._executor.executor import Executor
from dali_proxy.pipeline._graph.graph import Edge, Graph, GraphNode
from dali_proxy.pipeline._graph.on_cpu import COPIES, has_cpu_form
from dali_proxy.pipeline._graph.renumbering import renumbered
from dali_proxy.pipeline._operator_api.request import BatchRequest, ExecutorConfig
from dali_proxy.pipeline._rng import BatchKey
from dali_proxy.pipeline.tensors.cpu import TensorListCPU

#: A value for each sample; None for a sample that doesn't take the branch of the operator.
Values = list["npt.NDArray[Any] | None"]


@dataclass(frozen=True, eq=False)
class Draw:
    """What an operator drew for a batch.

    Attributes:
        operator: the operator, as a user calls it, such as ``fn.random.uniform``, with the name that the user gave it.
        line: the user's line that calls it, as ``file:line``; empty if unknown.
        view: 0 for the first result of the pipeline for the same samples, 1 for the second, and so on.
        name: what it is, if the operator draws several, such as ``anchor (y, x)``; else empty.
        numbers: the numbers of each sample, in the order of the batch; None for a sample that takes another branch of
            an ``if``, unless the operator has no inputs: then it draws for all samples. None for an operator without
            anything short to show, such as ``fn.noise.gaussian``, which draws a number for each element, or a Python
            function; and for one whose numbers depend on results of such functions, of readers or of sources.
    """

    operator: str
    line: str
    view: int
    name: str
    numbers: tuple[npt.NDArray[Any] | None, ...] | None


def draws(
    graph: Graph, seed: int, key: BatchKey, size: int, inputs: Mapping[str, Sequence[npt.NDArray[Any]]]
) -> Iterator[Draw]:
    """Return what each random operator of a graph drew for a batch, in the order of the graph.

    An operator whose numbers depend on data, such as the sizes of images, runs again, with the operators before it.

    Args:
        graph: the graph.
        seed: seed of the pipeline.
        key: identity of the batch.
        size: number of samples.
        inputs: for each input of the graph, the data of the samples; those that are missing aren't known.
    """
    batch = _Drawing(graph, seed, key, size, inputs)
    for node in graph.nodes:
        if node.schema.random:
            line = node.location.short if node.location.line else ""
            names = node.schema.draws(node.arguments) if callable(node.schema.draws) else node.schema.draws
            if names and batch.is_known(node):
                for name, numbers in zip(names, batch.drawn(node, len(names)), strict=True):
                    yield Draw(node.display, line, key.view, name * (len(names) > 1), tuple(numbers))
            else:
                yield Draw(node.display, line, key.view, "", None)


class _Drawing:
    """A batch of which only what operators draw is computed."""

    def __init__(
        self, graph: Graph, seed: int, key: BatchKey, size: int, inputs: Mapping[str, Sequence[npt.NDArray[Any]]]
    ) -> None:
        self._nodes = graph.nodes
        self._seed, self._key, self._size, self._inputs = seed, key, size, inputs
        self._known: set[int] = set()
        for node in graph.nodes:  # in order of execution
            schema = node.schema
            runs_code = schema.side_effects or schema.is_reader or schema.argument(DETERMINISTIC) is not None
            repeats = node.name in inputs if schema.fed else not runs_code
            runs = has_cpu_form(node) or node.schema.role in COPIES
            if repeats and runs and all(edge.node in self._known for edge in node.sources):
                self._known.add(node.index)

    def is_known(self, node: GraphNode) -> bool:
        """Return whether the values of a node can be computed here."""
        return node.index in self._known

    def drawn(self, node: GraphNode, count: int) -> list[Values]:
        """Return what a known node draws: so many values for each sample."""
        edges = [Edge(node.index, number) for number in range(min(count, node.output_count))]
        return self._run(edges, count)

    def _run(self, edges: Sequence[Edge], count: int) -> list[Values]:
        """Return what the node of some edges has noted, or else the values of these edges."""
        taken = np.arange(self._size)
        for selector, value in self._nodes[edges[0].node].branch:
            (chosen,) = self._run([selector], 1)
            taken = np.array([each for each in taken.tolist() if _is(chosen[each], value)], np.int64)
        columns: list[Values] = [[None] * self._size for _ in range(count)]
        if len(taken):
            graph = self._graph(edges)
            config = ExecutorConfig(self._size, num_threads=1, device_id=None, seed=self._seed)
            inputs = {name: TensorListCPU([*self._inputs[name]]) for name in graph.fed_inputs}
            noted: dict[int, tuple[Any, ...]] = {}
            with closing(Executor(graph, config)) as executor:
                outputs = executor.run(BatchRequest(self._size, inputs, key=self._key, drawn=noted))
            values = noted.get(graph.outputs[0].node)
            if values is None:
                values = tuple(output.samples for output in outputs if isinstance(output, TensorListCPU))
            for column, samples in zip(columns, values, strict=True):
                for position, sample in zip(taken.tolist(), samples, strict=True):
                    column[position] = np.array(sample)
        return columns

    def _graph(self, outputs: Sequence[Edge]) -> Graph:
        """Return a graph on the CPU that computes outputs of a node, for the samples of its branch only."""
        needed, waiting = set[int](), [outputs[0].node]
        while waiting:
            number = waiting.pop()
            if number not in needed:
                needed.add(number)
                waiting += [edge.node for edge in self._nodes[number].sources]
        nodes: list[GraphNode] = []
        moved: dict[Edge, Edge] = {}
        for node in (self._nodes[number] for number in sorted(needed)):
            if node.schema.role in COPIES:
                moved[Edge(node.index)] = moved[node.inputs[0]]
                continue
            moved.update({Edge(node.index, number): Edge(len(nodes), number) for number in range(node.output_count)})
            nodes.append(replace(renumbered(node, len(nodes), moved), device="cpu"))
        return Graph(tuple(nodes), tuple(moved[edge] for edge in outputs))


def _is(value: npt.NDArray[Any] | None, branch: int) -> bool:
    return value is not None and int(value) == branch
