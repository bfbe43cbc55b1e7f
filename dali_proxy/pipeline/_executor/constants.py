"""The constants of a graph: outputs that are the same for all batches of one size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dali_proxy.pipeline._graph.graph import Edge, GraphNode
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.request import TensorList

# Number of sizes of batches for which constants are kept.
_MOST_SIZES = 16


class Constants:
    """The constants of a graph, computed once for each size of batches.

    Args:
        nodes: constants, and copies of them to the GPU, in order.
        operators: implementations of the nodes, by index.
    """

    def __init__(self, nodes: Sequence[GraphNode], operators: Mapping[int, Any]) -> None:
        self._nodes = nodes
        self._operators = operators
        self._kept: dict[tuple[bool, int], dict[Edge, TensorList]] = {}

    def add_to(self, batch: Batch, on_gpu: bool) -> None:
        """Add the constants of one device to the outputs of a batch; on the GPU, on the batch's stream."""
        if not self._nodes:
            return
        constants = self._kept.get((on_gpu, batch.size))
        if constants is None:
            constants = self._compute(batch, on_gpu)
            if len(self._kept) < _MOST_SIZES:
                if on_gpu and constants:
                    batch.stream.synchronize()  # batches on other streams read them, too
                self._kept[on_gpu, batch.size] = constants
        batch.outputs.update(constants)

    def _compute(self, batch: Batch, on_gpu: bool) -> dict[Edge, TensorList]:
        constants: dict[Edge, TensorList] = {}
        for node in self._nodes:
            if (node.device == "gpu") is on_gpu:
                inputs = [constants[edge] if edge in constants else batch.outputs[edge] for edge in node.inputs]
                (constants[Edge(node.index)],) = self._operators[node.index].run(batch, inputs)
        return constants

    def own(self, batch: Batch, outputs: Sequence[TensorList]) -> tuple[TensorList, ...]:
        """Return outputs of a batch; other objects for those that operators passed on from constants."""
        if not self._nodes:
            return tuple(outputs)
        constants = [self._kept.get((on_gpu, batch.size), {}) for on_gpu in (False, True)]
        kept = {id(value) for each in constants for value in each.values()}
        return tuple([type(output)(output) if id(output) in kept else output for output in outputs])
