"""The random numbers that a graph drew for a batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

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
    """The random numbers that an operator drew for a batch.

    Attributes:
        operator: the operator, as a user calls it, such as ``fn.random.uniform``, with the name that the user gave it.
        line: the user's line that calls it, as ``file:line``; empty if unknown.
        view: 0 for the first result of the pipeline for the same samples, 1 for the second, and so on.
        numbers: the numbers of each sample, in the order of the batch; None for a sample that takes another branch of
            an ``if``. None for an operator whose numbers can't be shown without the data: it draws them while it
            works, as ``fn.noise.gaussian`` does, or they depend on the pipeline's inputs.
    """

    operator: str
    line: str
    view: int
    numbers: tuple[npt.NDArray[Any] | None, ...] | None


def draws(graph: Graph, seed: int, key: BatchKey, size: int) -> Iterator[Draw]:
    """Return what each random operator of a graph drew for a batch, in the order of the graph, without its data.

    Args:
        graph: the graph.
        seed: seed of the pipeline.
        key: identity of the batch.
        size: number of samples.
    """
    batch = _Drawing(graph, seed, key, size)
    for node in graph.nodes:
        if node.schema.random:
            numbers = tuple(batch.values(Edge(node.index))) if batch.is_known(node) else None
            yield Draw(node.display, node.location.short if node.location.line else "", key.view, numbers)


class _Drawing:
    """A batch without data: the values that follow from random numbers and constants alone."""

    def __init__(self, graph: Graph, seed: int, key: BatchKey, size: int) -> None:
        self._nodes = graph.nodes
        self._seed, self._key, self._size = seed, key, size
        self._known: set[int] = set()
        for node in graph.nodes:  # in order of execution
            repeats = node.operator.startswith("random.") or not node.schema.stateful
            runs = has_cpu_form(node) or node.schema.role in COPIES
            if repeats and runs and all(edge.node in self._known for edge in node.sources):
                self._known.add(node.index)

    def is_known(self, node: GraphNode) -> bool:
        """Return whether the values of a node depend on no data."""
        return node.index in self._known

    def values(self, edge: Edge) -> Values:
        """Return the values of an output of a known node."""
        taken = np.arange(self._size)
        for selector, value in self._nodes[edge.node].branch:
            chosen = self.values(selector)
            taken = np.array([each for each in taken.tolist() if _is(chosen[each], value)], np.int64)
        values: Values = [None] * self._size
        if len(taken):
            config = ExecutorConfig(self._size, num_threads=1, device_id=None, seed=self._seed)
            with closing(Executor(self._graph(edge), config)) as executor:
                (output,) = executor.run(BatchRequest(self._size, key=self._key))
            assert isinstance(output, TensorListCPU)
            for position, sample in zip(taken.tolist(), output.samples, strict=True):
                values[position] = np.array(sample)
        return values

    def _graph(self, output: Edge) -> Graph:
        """Return a graph on the CPU that computes an output, for the samples of its branch only."""
        needed, waiting = set[int](), [output.node]
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
        return Graph(tuple(nodes), (moved[output],))


def _is(value: npt.NDArray[Any] | None, branch: int) -> bool:
    return value is not None and int(value) == branch
